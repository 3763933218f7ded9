"""A pool's children as the text that people read: what the operator would apply, without a cluster. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import yaml

from workslice_api.conditions import find_condition
from workslice_api.names import ConditionType
from workslice_operator.installation import Installation
from workslice_operator.observed import Observed
from workslice_operator.plan import Plan, plan


class NothingApplied(Exception):
    """The operator would make nothing of the pool; the message is its condition's."""


def rendered_children(observed: Observed, installation: Installation, now: datetime) -> str:
    """YAML of everything that the operator would apply for the pool.

    Raises:
        NothingApplied: see there.
    """
    planned = plan(observed, installation, now)
    if not planned.apply:
        raise NothingApplied(why_nothing(planned))
    return as_yaml(planned.apply)


def as_yaml(manifests: Iterable[Mapping[str, Any]]) -> str:
    """One document per manifest, fields in the order of the manifest."""
    return yaml.safe_dump_all([dict(one) for one in manifests], sort_keys=False, width=120)


def why_nothing(planned: Plan) -> str:
    """The condition that keeps the operator from applying anything."""
    for type_, status in (
        (ConditionType.PAUSED, "True"),
        (ConditionType.CONFLICT, "True"),
        (ConditionType.PROFILE_READY, "False"),
    ):
        found = find_condition(planned.status.conditions, type_)
        if found is not None and found.status == status:
            return found.message
    return "there is nothing to apply"
