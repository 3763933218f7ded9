"""Which conditions need a person: the source of Warning Events, of the metrics of faults and so of alerts. Pure."""

from collections.abc import Iterable
from typing import Final

from workslice_api.base import Condition
from workslice_api.names import ConditionType, Reason

WARNED: Final = {
    ConditionType.PROFILE_READY: "False",
    ConditionType.SLICES_GRANTED: "False",
    ConditionType.ENGINES_READY: "False",
    ConditionType.DEGRADED: "True",
    ConditionType.CONFLICT: "True",
}
"""Conditions of a pool whose fault is worth a Warning Event, and the status that is one."""
NO_FAULT: Final = (Reason.STARTING, Reason.NOT_STARTED, Reason.FOUND_NOT_TO_FIT)
"""Reasons that another condition explains, that pass by themselves, or that only inform."""
_PROFILE: Final = {ConditionType.ACCEPTED: "False", ConditionType.FITS: "False"}
_LASTING: Final = (Reason.SIGNAL_UNKNOWN, Reason.ROUTERS_UNKNOWN, Reason.LIMITED_BY_MAXIMUM, Reason.PAUSED)
"""Reasons that need a person only when they last."""


def is_fault(one: Condition) -> bool:
    """Whether a condition, when it stays like this, needs a person."""
    if one.reason in _LASTING:
        return True
    wrong = (WARNED | _PROFILE).get(ConditionType(one.type)) if one.type in list(ConditionType) else None
    return one.status == wrong and one.reason not in NO_FAULT


def faults(conditions: Iterable[Condition]) -> frozenset[tuple[str, str]]:
    """Type and reason of each condition that needs a person."""
    return frozenset((one.type, one.reason) for one in conditions if is_fault(one))
