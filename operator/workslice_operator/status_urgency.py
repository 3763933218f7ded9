"""How soon a new status must be written: decisions at once, numbers that only moved a little later, nothing when equal or paused. Pure."""

import re
from enum import Enum
from typing import Any

from workslice_api.pool import WorkspacePoolStatus
from workslice_operator.lower_demand import claims_no_more
from workslice_operator.pause import says_paused

_NUMBER = re.compile(r"\d+")


class Urgency(Enum):
    """When to write a status."""

    NOTHING = "nothing"
    """It is the same, but for the slices that other pools have taken or left: each of their pods would be a write of every pool."""
    NUMBERS = "numbers"
    """Only queue numbers or figures inside messages moved: at most every 30 s."""
    DECISION = "decision"
    """At once."""


def urgency(stored: WorkspacePoolStatus, planned: WorkspacePoolStatus) -> Urgency:
    """Compare what the API holds with what was planned."""
    if stored == planned:
        return Urgency.NOTHING
    as_free = planned.slices.model_copy(update={"free": stored.slices.free})
    if stored == planned.model_copy(update={"slices": as_free}):
        return Urgency.NOTHING
    pause = says_paused(planned.conditions)
    if pause is not None and pause == says_paused(stored.conditions):
        return Urgency.NOTHING
    # An operator that starts from the stored memory may shrink the pool later than this one would, never sooner.
    safe = claims_no_more(stored.scaling.lower, planned.scaling.lower)
    return Urgency.NUMBERS if safe and _decision(stored) == _decision(planned) else Urgency.DECISION


def _decision(status: WorkspacePoolStatus) -> dict[str, Any]:
    view = status.to_wire()
    view.pop("queueDepth", None)
    # The rest of the memory is kept by the process as well (see PoolReconciler); in the status it is for a restart.
    view["scaling"] = status.scaling.desired
    view["slices"].pop("free", None)
    view["conditions"] = [
        (one["type"], one["status"], one["reason"], _NUMBER.sub("#", one["message"])) for one in view["conditions"]
    ]
    return view
