"""How many replicas a pool should run: pure. Its memory lives in the pool's status, so a restart of the operator loses nothing.

Up at once, down only after demand stayed lower for the whole window, and then no lower than the most that was wanted in it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from workslice_api.names import Reason
from workslice_api.pool import ScalingMemory, WorkspacePoolSpec
from workslice_api.quantity import duration_seconds
from workslice_operator.observed import PodFacts, QueueSignal


@dataclass(frozen=True)
class ReplicaCounts:
    """The replicas that the scaler reckons with."""

    current: int | None
    """Replicas that the Deployment asks for; None before it exists."""
    starting: int = 0
    """Placed, not ready yet and within their startup timeout."""
    unplaced: int = 0
    """Without a place: a scale-down takes them first."""


@dataclass(frozen=True)
class Decision:
    """Replicas wanted, why, and what to remember."""

    desired: int
    reason: Reason
    message: str
    """For people. It holds no number that changes from second to second: the status would be written all the time."""
    memory: ScalingMemory


def count_replicas(
    pods: Iterable[PodFacts], current: int | None, startup_timeout: float, now: datetime
) -> ReplicaCounts:
    """Counts of the live pods; `startup_timeout` in seconds."""
    live = [pod for pod in pods if pod.live]
    return ReplicaCounts(
        current=current,
        starting=sum(is_starting(pod, startup_timeout, now) for pod in live),
        unplaced=sum(not pod.scheduled for pod in live),
    )


def is_starting(pod: PodFacts, startup_timeout: float, now: datetime) -> bool:
    """Whether a pod has its slice, is not ready, and may still become it in time."""
    return (
        pod.live
        and not pod.ready
        and pod.scheduled_at is not None
        and (now - pod.scheduled_at).total_seconds() < startup_timeout
    )


def decide(
    spec: WorkspacePoolSpec, memory: ScalingMemory, counts: ReplicaCounts, signal: QueueSignal | None, now: datetime
) -> Decision:
    """Replicas that the pool should have now."""
    if spec.scaling.mode == "Fixed":
        wanted = spec.replicas
        return Decision(
            wanted, Reason.FIXED, f"spec.replicas asks for {_replicas(wanted)}", ScalingMemory(desired=wanted)
        )
    minimum = spec.scaling.min_replicas or 1
    maximum = max(minimum, spec.scaling.max_replicas or minimum)
    base = min(max(memory.desired or counts.current or minimum, minimum), maximum)
    if signal is None:
        return Decision(
            base,
            Reason.SIGNAL_UNKNOWN,
            f"queue depth is unknown, so the pool stays at {_replicas(base)}: see that every router is running and that the "
            "operator reaches its admin port",
            memory.model_copy(update={"desired": base}),
        )
    uncapped = math.ceil(signal.depth / spec.scaling.target_per_replica)
    wanted = min(max(uncapped, minimum), maximum)
    if wanted < base:
        return _lower(spec, memory, counts, base, wanted, now)
    steady = ScalingMemory(desired=wanted)
    if uncapped > maximum:
        return Decision(
            wanted,
            Reason.LIMITED_BY_MAXIMUM,
            f"demand asks for more than scaling.maxReplicas ({maximum}): raise it if slices are free, or let requests wait",
            steady,
        )
    if wanted > base:
        return Decision(wanted, Reason.SCALED_UP, f"queue depth asks for {_replicas(wanted)}", steady)
    return Decision(wanted, Reason.STEADY, f"queue depth asks for {_replicas(wanted)}", steady)


def _lower(
    spec: WorkspacePoolSpec, memory: ScalingMemory, counts: ReplicaCounts, base: int, wanted: int, now: datetime
) -> Decision:
    began, highest = now, wanted
    # A mark at or above the present size is from before someone lowered the bounds: the window begins anew.
    if memory.lower_since and (memory.highest_since or 0) < base:
        began, highest = datetime.fromisoformat(memory.lower_since), max(wanted, memory.highest_since or 0)
    window = duration_seconds(spec.scaling.scale_down_window)
    waiting = ScalingMemory(desired=base, lower_since=began.isoformat(), highest_since=highest)
    if (now - began).total_seconds() < window:
        message = f"demand asks for fewer replicas; down to {_replicas(highest)} when it stays so for {spec.scaling.scale_down_window}"
        return Decision(base, Reason.SCALE_DOWN_DELAYED, message, waiting)
    # Replicas that start would be the first to go (a ReplicaSet deletes those that are not ready), so demand would pay twice.
    # Those without a place go before them and cost nothing.
    floor = base - counts.unplaced if counts.starting else 0
    target = max(highest, floor)
    if target >= base:
        message = f"down to {_replicas(highest)} as soon as the ones that start now are ready"
        return Decision(base, Reason.HELD_WHILE_STARTING, message, waiting)
    remains = ScalingMemory(desired=target)
    if wanted < target:
        remains = ScalingMemory(desired=target, lower_since=now.isoformat(), highest_since=wanted)
    message = f"demand asked for at most {_replicas(highest)} during {spec.scaling.scale_down_window}"
    return Decision(target, Reason.SCALED_DOWN, message, remains)


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"
