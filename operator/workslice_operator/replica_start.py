"""How long replicas take to start: a pool's as the last one did, a profile's as most do; and a queue that gives up before. Pure."""

from collections.abc import Iterable
from typing import Final

from workslice_api.pool import WorkspacePoolSpec
from workslice_api.pool_replicas import ReplicaStart
from workslice_api.quantity import duration_seconds
from workslice_operator.observed import PodFacts

_TOLERANCE: Final = 0.2


def last_start(before: ReplicaStart | None, pods: Iterable[PodFacts]) -> ReplicaStart | None:
    """The start of the replica that got its slice last, of those that are ready; `before` unless there is a later one.

    A replica counts once, when it is first seen ready: when it is so again later, the moment says nothing of its start. Nor does
    that of one whose engine has been restarted.
    """
    starts = [
        (pod.scheduled_at, pod.ready_at)
        for pod in pods
        if pod.live and not pod.restarts and pod.scheduled_at is not None and pod.ready_at is not None
    ]
    if not starts:
        return before
    scheduled_at, ready_at = max(starts)
    since = scheduled_at.isoformat()
    if before is not None and before.time >= scheduled_at:
        return before
    return ReplicaStart(since=since, seconds=max(0, round((ready_at - scheduled_at).total_seconds())))


def usual_start(before: int | None, starts: Iterable[ReplicaStart | None]) -> int | None:
    """Seconds that replicas of a profile take to start, by the last starts of its pools: their median, of two in the middle the shorter,
    since one that had to fetch an image or a model says little of the next. `before` stays while it is about right.
    """
    known = sorted(one.seconds for one in starts if one is not None)
    if not known:
        return before
    median = known[(len(known) - 1) // 2]
    return median if _is_off(before, median) else before


def tells_more(known: int | None, before: ReplicaStart | None, now: ReplicaStart | None) -> bool:
    """Whether a pool's last start is a new one that the profile, with what is `known` there, should hear of at once."""
    return now is not None and now != before and _is_off(known, now.seconds)


def _is_off(known: int | None, seconds: int) -> bool:
    # Not at every second of difference: routers look at all pools of a profile whose value changes.
    return known is None or abs(seconds - known) > max(1, known * _TOLERANCE)


def impatience(spec: WorkspacePoolSpec, start: ReplicaStart | None) -> str:
    """A sentence with what to set when requests that wake the pool give up before a replica is there; empty otherwise."""
    sleeps = spec.scaling.mode == "QueueDepth" and spec.scaling.scale_to_zero_after is not None
    wait = spec.queue.cold_start_max_wait
    if not sleeps or start is None or start.seconds <= duration_seconds(wait):
        return ""
    return (
        f"requests that wake the pool wait for queue.coldStartMaxWait ({wait}), which is less than replicas take to start "
        "(status.lastStart): raise it, and what clients wait"
    )
