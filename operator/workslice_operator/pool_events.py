"""Which Events a change of a pool's status is worth: each is noted once, when the condition that it speaks of changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from workslice_api.base import Condition
from workslice_api.conditions import find_condition
from workslice_api.names import ConditionType, Reason
from workslice_api.pool import SliceStatus, WorkspacePoolStatus
from workslice_operator.faults import NO_FAULT, WARNED
from workslice_operator.scaling import Decision

_SCALED: Final = (
    Reason.SCALED_UP,
    Reason.SCALED_DOWN,
    Reason.FIXED,
    Reason.EXTERNAL,
    Reason.LIMITED_BY_MAXIMUM,
    Reason.SCALED_TO_ZERO,
)


@dataclass(frozen=True)
class EventNote:
    """An Event to write about the pool."""

    type: Literal["Normal", "Warning"]
    reason: Reason
    message: str


def pool_events(
    previous: WorkspacePoolStatus,
    conditions: Sequence[Condition],
    decision: Decision,
    unused: str,
    impatience: str = "",
) -> tuple[EventNote, ...]:
    """Events of this change; `unused` is what the condition Scaling says of a spec.replicas that nothing reads, `impatience` of a queue
    that gives up before replicas have started.
    """
    return (
        *_scaled(previous, decision),
        *_remarked(previous, Reason.REPLICAS_NOT_USED, unused),
        *_remarked(previous, Reason.COLD_START_EXCEEDS_WAIT, impatience),
        *_faults(previous, conditions),
        *_became_ready(previous, conditions),
        *_resumed(previous),
    )


def slice_event(previous: SliceStatus, now: SliceStatus) -> tuple[EventNote, ...]:
    """The Event of a choice between several slices."""
    if not now.message or now.profile == previous.profile:
        return ()
    return (EventNote("Normal", Reason.SLICE_CHOSEN, f"replicas take {now.profile} slices: {now.message}"),)


def _remarked(previous: WorkspacePoolStatus, reason: Reason, remark: str) -> Iterator[EventNote]:
    before = find_condition(previous.conditions, ConditionType.SCALING)
    if remark and (before is None or remark not in before.message):
        yield EventNote("Warning", reason, remark)


def _scaled(previous: WorkspacePoolStatus, decision: Decision) -> Iterator[EventNote]:
    before = previous.desired_replicas
    if decision.reason in _SCALED and before != decision.desired:
        reason = Reason.SCALED_UP if decision.desired > before else Reason.SCALED_DOWN
        yield EventNote("Normal", reason, f"from {before} to {decision.desired} replicas: {decision.message}")


def _faults(previous: WorkspacePoolStatus, conditions: Sequence[Condition]) -> Iterator[EventNote]:
    for type_, fault in WARNED.items():
        now, before = find_condition(conditions, type_), find_condition(previous.conditions, type_)
        if now is None or now.status != fault or now.reason in NO_FAULT:
            continue
        known = before is not None and before.status == fault and before.reason == now.reason
        # What others added is worth an Event each time that the list changes; other messages hold counts that move.
        same = known and (now.reason != Reason.FOREIGN_FIELDS or before is None or before.message == now.message)
        if not same:
            yield EventNote("Warning", Reason(now.reason), now.message)


def _resumed(previous: WorkspacePoolStatus) -> Iterator[EventNote]:
    if find_condition(previous.conditions, ConditionType.PAUSED) is not None:
        yield EventNote("Normal", Reason.RESUMED, "no longer paused: the operator goes on with the pool")


def _became_ready(previous: WorkspacePoolStatus, conditions: Sequence[Condition]) -> Iterator[EventNote]:
    now, before = (
        find_condition(conditions, ConditionType.READY),
        find_condition(previous.conditions, ConditionType.READY),
    )
    if now is not None and now.status == "True" and (before is None or before.status != "True"):
        yield EventNote("Normal", Reason.POOL_READY, now.message)
