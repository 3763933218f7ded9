"""Setting conditions the Kubernetes way: the transition time changes only when the status does."""

from collections.abc import Iterable, Sequence

from workslice_api.base import Condition

MAX_MESSAGE = 4000


def condition(type_: str, status: bool | None, reason: str, message: str, generation: int, now: str) -> Condition:
    """A condition as of `now` (RFC 3339); status None is Unknown."""
    text = "Unknown" if status is None else str(status)
    return Condition.model_validate(
        {
            "type": type_,
            "status": text,
            "reason": reason,
            "message": message[:MAX_MESSAGE],
            "last_transition_time": now,
            "observed_generation": generation,
        }
    )


def merge_conditions(previous: Iterable[Condition], current: Sequence[Condition]) -> list[Condition]:
    """`current`, with the transition times of those in `previous` that have the same status."""
    before = {one.type: one for one in previous}
    merged = []
    for one in current:
        old = before.get(one.type)
        same = old is not None and old.status == one.status
        merged.append(
            one.model_copy(update={"last_transition_time": old.last_transition_time}) if old and same else one
        )
    return merged


def find_condition(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of that type, if set."""
    return next((one for one in conditions if one.type == type_), None)
