"""How many replicas a pool should run: pure. Its memory lives in the pool's status, so a restart of the operator loses nothing.

Up at once, down only after demand stayed lower for the whole window, and then no lower than the most that was wanted in it. Which
depth counts is `weighed_depth.py`, how many replicas it is worth `wanted_replicas.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from workslice_api.names import Reason
from workslice_api.pool import LowerDemand, Scaling, ScalingMemory, WorkspacePoolSpec
from workslice_api.quantity import duration_seconds
from workslice_operator.idle import may_sleep, wakes
from workslice_operator.lower_demand import asked, most_within
from workslice_operator.observed import PodFacts, QueueSignal
from workslice_operator.scheduled_minimum import scheduled_minimum
from workslice_operator.wanted_replicas import demanded_replicas, wanted_replicas
from workslice_operator.weighed_depth import MILLI, weighed_depth


@dataclass(frozen=True)
class ReplicaCounts:
    """The replicas that the scaler reckons with."""

    current: int | None
    """Replicas that the Deployment asks for; None before it exists."""
    starting: int = 0
    """Placed, not ready yet and within their startup timeout."""
    unplaced: int = 0
    """Without a place: a scale-down takes them first."""
    ready: int | None = None
    """Those that carry the queue depth; None: as many as `current`."""

    @property
    def carrying(self) -> int:
        """Replicas over which the queue depth is spread."""
        return self.ready if self.ready is not None else self.current or 0


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
        ready=sum(pod.ready for pod in live),
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
    if spec.scaling.mode != "QueueDepth":
        wanted = spec.replicas
        reason = Reason.EXTERNAL if spec.scaling.mode == "External" else Reason.FIXED
        return Decision(wanted, reason, f"spec.replicas asks for {_replicas(wanted)}", ScalingMemory(desired=wanted))
    scheduled = scheduled_minimum(spec.scaling.schedule, now)
    minimum, maximum = bounds(spec.scaling, scheduled)
    if memory.asleep and spec.scaling.scale_to_zero_after is not None and not scheduled:
        if signal is None or not wakes(memory, signal):
            return _asleep(spec, memory)
        wanted = min(
            max(demanded_replicas(signal.depth * MILLI, 0, 0, spec.scaling.target_per_replica), minimum), maximum
        )
        awake = _moved(memory, wanted).model_copy(update={"idle_since": None})
        return Decision(wanted, Reason.SCALED_UP, "a request wakes the pool", awake)
    base = min(max(memory.desired or counts.current or minimum, minimum), maximum)
    if signal is None:
        return Decision(
            base,
            Reason.SIGNAL_UNKNOWN,
            f"queue depth is unknown, so the pool stays at {_replicas(base)}: see that every router is running and that the "
            "operator reaches its admin port",
            memory.model_copy(update={"desired": base}),
        )
    # A pool whose engines do not come up has served nobody: at zero its fault would not be seen.
    if may_sleep(spec.scaling, memory, signal, now) and counts.ready and not counts.starting and not scheduled:
        return _asleep(spec, memory)
    depth = weighed_depth(memory, signal)
    demanded = demanded_replicas(depth, signal.queued, counts.carrying, spec.scaling.target_per_replica)
    wanted = wanted_replicas(spec.scaling, depth, signal.queued, counts.carrying, base)
    wanted = min(max(wanted, minimum), maximum)
    if wanted < base:
        return _lower(spec, memory, counts, base, wanted, now)
    steady = _moved(memory, wanted)
    if demanded > maximum:
        return Decision(
            wanted,
            Reason.LIMITED_BY_MAXIMUM,
            f"demand asks for more than scaling.maxReplicas ({maximum}): raise it if slices are free, or let requests wait",
            steady,
        )
    message = f"queue depth asks for {_replicas(wanted)}{_headroom(demanded, wanted, spec)}"
    return Decision(wanted, Reason.SCALED_UP if wanted > base else Reason.STEADY, message, steady)


def bounds(scaling: Scaling, scheduled: int) -> tuple[int, int]:
    """Fewest and most replicas of a pool that is awake, whose schedule asks for so many now: for no more than the maximum."""
    least = scaling.min_replicas or 1
    most = max(least, scaling.max_replicas or least)
    return min(max(least, scheduled), most), most


def _asleep(spec: WorkspacePoolSpec, memory: ScalingMemory) -> Decision:
    message = f"no request for {spec.scaling.scale_to_zero_after}: the next one wakes the pool"
    return Decision(0, Reason.SCALED_TO_ZERO, message, _moved(memory, 0).model_copy(update={"asleep": True}))


def _headroom(demanded: int, wanted: int, spec: WorkspacePoolSpec) -> str:
    """What a message says of headroom: that it is in the number, or how much of it the maximum leaves."""
    headroom = spec.scaling.headroom
    if not headroom or wanted > demanded + headroom:  # the minimum is above both
        return ""
    if wanted - demanded < headroom:
        return f" with scaling.headroom {headroom}, of which scaling.maxReplicas leaves {max(0, wanted - demanded)}"
    return f" with scaling.headroom {headroom}"


def _moved(memory: ScalingMemory, desired: int, lower: Sequence[LowerDemand] = ()) -> ScalingMemory:
    """The memory with another size."""
    return memory.model_copy(update={"desired": desired, "lower": list(lower), "asleep": False})


def _lower(
    spec: WorkspacePoolSpec, memory: ScalingMemory, counts: ReplicaCounts, base: int, wanted: int, now: datetime
) -> Decision:
    # Lines at or above the present size are from before someone lowered the bounds: they say nothing of demand.
    lower = asked([one for one in memory.lower if one.replicas < base], wanted, now)
    waiting = _moved(memory, base, lower)
    window = spec.scaling.scale_down_window
    most = most_within(lower, duration_seconds(window), now)
    if most is None:
        message = (
            f"demand asks for fewer replicas; down to {_replicas(lower[0].replicas)} when it stays so for {window}"
        )
        return Decision(base, Reason.SCALE_DOWN_DELAYED, message, waiting)
    # Replicas that start would be the first to go (a ReplicaSet deletes those that are not ready), so demand would pay twice.
    # Those without a place go before them and cost nothing.
    floor = base - counts.unplaced if counts.starting else 0
    target = max(most, floor)
    if target >= base:
        message = f"down to {_replicas(most)} as soon as the ones that start now are ready"
        return Decision(base, Reason.HELD_WHILE_STARTING, message, waiting)
    message = f"demand asked for at most {_replicas(most)} during {window}"
    remains = _moved(memory, target, [one for one in lower if one.replicas < target])
    return Decision(target, Reason.SCALED_DOWN, message, remains)


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"
