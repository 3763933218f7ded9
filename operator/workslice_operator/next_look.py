"""When a pool must be looked at again although no event may tell: windows that end, and things that the operator does not watch."""

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from workslice_api.quantity import duration_seconds
from workslice_operator.idle import seconds_until_sleep
from workslice_operator.observed import Observed
from workslice_operator.scaling import Decision, is_starting
from workslice_operator.slice_conditions import free_although_refused, may_settle
from workslice_operator.surge import waits_for_place

_UNWATCHED_SECONDS: Final = 10.0
"""Slices of other pools, volumes, quotas and nodes change without an event of this pool."""
_DISAGREEMENT_SECONDS: Final = 4.0
"""The scheduler says that no slice is free, the inventory that one is: longer than the inventory is shared, and soon over."""
_SHORTEST_SECONDS: Final = 1.0


def next_look(observed: Observed, decision: Decision, startup_timeout: float, now: datetime) -> float:
    """Seconds from `now`, at least 1; infinite when only events can change anything."""
    return max(_SHORTEST_SECONDS, min(_delays(observed, decision, startup_timeout, now), default=math.inf))


def _delays(observed: Observed, decision: Decision, startup_timeout: float, now: datetime) -> Iterator[float]:
    window = timedelta(seconds=duration_seconds(observed.pool.spec.scaling.scale_down_window))
    for one in decision.memory.lower:
        left = (datetime.fromisoformat(one.since) + window - now).total_seconds()
        yield left if left > 0 else _UNWATCHED_SECONDS
    until_sleep = seconds_until_sleep(observed.pool.spec.scaling, decision.memory, now)
    if until_sleep is not None:
        yield until_sleep if until_sleep > 0 else _UNWATCHED_SECONDS
    live = [pod for pod in observed.pods if pod.live]
    if sum(pod.scheduled for pod in live) < decision.desired or observed.missing_volumes or waits_for_place(observed):
        yield _UNWATCHED_SECONDS
    if may_settle(observed) and free_although_refused(observed):
        yield _DISAGREEMENT_SECONDS
    if any(pod.node in observed.cordoned_nodes or pod.silent or not pod.sandboxed for pod in live):
        yield _UNWATCHED_SECONDS
    for pod in live:
        if pod.scheduled_at is not None and is_starting(pod, startup_timeout, now):
            yield (pod.scheduled_at + timedelta(seconds=startup_timeout) - now).total_seconds()
