"""Whether a pool has had no request for so long that it may sleep: pure.

The depth alone does not tell: a request that comes and ends between two looks is never seen in it, nor one that another pool serves
because this one sleeps. So routers count those who ask.
"""

from datetime import datetime

from workslice_api.pool import Scaling, ScalingMemory
from workslice_api.quantity import duration_seconds
from workslice_operator.observed import QueueSignal
from workslice_operator.remembered_time import not_later


def remember_idle(scaling: Scaling, memory: ScalingMemory, signal: QueueSignal, now: datetime) -> ScalingMemory:
    """The memory after another look; the same object when nothing changes. A router that comes or goes changes the count, and so
    passes for a request.
    """
    if scaling.scale_to_zero_after is None:
        if memory.idle_since is None and memory.asked is None:
            return memory
        return memory.model_copy(update={"idle_since": None, "asked": None})
    if memory.asleep:
        # What is more than remembered is a request, which wakes the pool; what is less, a router that started anew.
        fewer = memory.asked is None or signal.asked < memory.asked
        return memory.model_copy(update={"asked": signal.asked}) if fewer else memory
    if _quiet(memory, signal):
        since = not_later(memory.idle_since or now.isoformat(), now)
        return memory if since == memory.idle_since else memory.model_copy(update={"idle_since": since})
    return memory.model_copy(update={"idle_since": None, "asked": signal.asked})


def may_sleep(scaling: Scaling, memory: ScalingMemory, signal: QueueSignal, now: datetime) -> bool:
    """Whether scaleToZeroAfter has passed since the last request."""
    left = seconds_until_sleep(scaling, memory, now)
    return left is not None and left <= 0 and _quiet(memory, signal)


def wakes(memory: ScalingMemory, signal: QueueSignal) -> bool:
    """Whether somebody has asked for a pool that sleeps."""
    return signal.depth > 0 or (memory.asked is not None and signal.asked > memory.asked)


def seconds_until_sleep(scaling: Scaling, memory: ScalingMemory, now: datetime) -> float | None:
    """Seconds left if no request comes; None while the pool is busy, asleep or never to sleep."""
    if scaling.scale_to_zero_after is None or memory.idle_since is None or memory.asleep:
        return None
    since = datetime.fromisoformat(memory.idle_since)
    return duration_seconds(scaling.scale_to_zero_after) - (now - since).total_seconds()


def _quiet(memory: ScalingMemory, signal: QueueSignal) -> bool:
    return signal.depth == 0 and memory.asked == signal.asked
