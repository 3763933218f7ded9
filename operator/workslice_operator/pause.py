"""Whether somebody has told the operator to keep its hands off a pool or profile, and what it says of that. Pure."""

from collections.abc import Sequence
from datetime import datetime

from workslice_api.base import Condition, ObjectMeta
from workslice_api.conditions import condition, find_condition, merge_conditions
from workslice_api.names import PAUSED_ANNOTATION, ConditionType, Reason
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.finding import Finding
from workslice_operator.pool_conditions import rfc3339


def is_paused(metadata: ObjectMeta) -> bool:
    """Whether the object has the annotation; its value `false` counts as none."""
    return metadata.annotations.get(PAUSED_ANNOTATION, "false").lower() != "false"


def pause_of_pool(pool: WorkspacePool, profile: WorkspaceProfile | None) -> Finding | None:
    """Why nothing of the pool may be written: its own annotation, or its profile's; None when all may."""
    name, namespace = pool.metadata.name, pool.metadata.namespace
    if is_paused(pool.metadata):
        return _paused("", f"wspool/{name} -n {namespace}")
    return pause_of_profile(profile, of="of its profile ") if profile is not None else None


def pause_of_profile(profile: WorkspaceProfile, of: str = "") -> Finding | None:
    """Why nothing of the profile may be written, None when all may."""
    return _paused(of, f"wsprof/{profile.metadata.name}") if is_paused(profile.metadata) else None


def with_pause(conditions: Sequence[Condition], pause: Finding, generation: int, now: datetime) -> list[Condition]:
    """The conditions as they were, and Paused beside them; the very same once it is there, whatever changes meanwhile."""
    known = says_paused(conditions)
    if known is not None and (known.reason, known.message) == (pause.reason, pause.message):
        return list(conditions)
    others = [one for one in conditions if one.type != ConditionType.PAUSED]
    fresh = condition(ConditionType.PAUSED, True, pause.reason, pause.message, generation, rfc3339(now))
    return merge_conditions(conditions, [*others, fresh])


def says_paused(conditions: Sequence[Condition]) -> Condition | None:
    """The condition Paused; there is one only while it is True."""
    return find_condition(conditions, ConditionType.PAUSED)


def _paused(of: str, target: str) -> Finding:
    message = (
        f"the annotation {PAUSED_ANNOTATION} {of}holds everything: the operator writes nothing more, and all else in this status is as of "
        f"then; to go on: kubectl annotate {target} {PAUSED_ANNOTATION}-"
    )
    return Finding(True, Reason.PAUSED, message)
