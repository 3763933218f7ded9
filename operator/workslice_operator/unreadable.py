"""What is done about a pool or profile that was stored under another schema and cannot be read: its status says why, and no more."""

import contextlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from workslice_api.base import Condition, ObjectMeta
from workslice_api.conditions import condition, merge_conditions
from workslice_api.names import POOL_KIND, PROFILE_KIND, ConditionType, Reason
from workslice_operator.event_writer import EventWriter
from workslice_operator.kube_api import Kube, NotFound, Object, Resource
from workslice_operator.pause import is_paused
from workslice_operator.pool_conditions import rfc3339
from workslice_operator.pool_events import EventNote
from workslice_operator.readable import validation_sentence

_SAID: Final[Mapping[str, Mapping[ConditionType, tuple[bool, Reason]]]] = {
    POOL_KIND: {
        ConditionType.READY: (False, Reason.POOL_NOT_READY),
        ConditionType.DEGRADED: (True, Reason.SPEC_INVALID),
    },
    PROFILE_KIND: {ConditionType.ACCEPTED: (False, Reason.SPEC_INVALID)},
}


async def say_unreadable(
    kube: Kube, events: EventWriter, resource: Resource, raw: Object, error: ValidationError, now: datetime
) -> list[Condition]:
    """Write it, unless that has been done, and return the object's conditions. All else in the status stays: the memory of drains and
    scaling is in it. Raises KubeError.
    """
    metadata = ObjectMeta.model_validate(raw["metadata"])
    status: Mapping[str, Any] = raw.get("status") or {}
    before = _conditions(status)
    if is_paused(metadata):
        return before
    said = _SAID[resource.kind]
    message = (
        f"what is stored does not pass the present schema: {validation_sentence(error)}; correct it with kubectl edit; engines that run "
        "stay as they are until then"
    )
    fresh = [
        condition(type_, true, reason, message, metadata.generation, rfc3339(now))
        for type_, (true, reason) in said.items()
    ]
    conditions = merge_conditions(before, [*fresh, *(one for one in before if one.type not in said)])
    if {one.type: one for one in conditions} == {one.type: one for one in before}:
        return conditions
    await events.write(resource.kind, metadata, EventNote("Warning", Reason.SPEC_INVALID, message))
    where = {"namespace": metadata.namespace} if metadata.namespace else {}
    manifest = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": metadata.name, "uid": metadata.uid, **where},
        "status": {**status, "conditions": [one.to_wire() for one in conditions]},
    }
    with contextlib.suppress(NotFound):  # deleted meanwhile
        await kube.apply_status(resource, manifest)
    return conditions


def _conditions(status: Mapping[str, Any]) -> list[Condition]:
    """The conditions that can be read."""
    found = []
    for one in status.get("conditions") or []:
        try:
            found.append(Condition.model_validate(one))
        except ValidationError:
            continue
    return found
