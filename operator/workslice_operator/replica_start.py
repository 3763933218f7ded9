"""How long a pool's replicas take to start, as the last one did, and a queue that gives up before. Pure."""

from collections.abc import Iterable

from workslice_api.pool import WorkspacePoolSpec
from workslice_api.pool_replicas import ReplicaStart
from workslice_api.quantity import duration_seconds
from workslice_operator.observed import PodFacts


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
