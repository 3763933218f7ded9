"""Whether applying a manifest would change anything: a process that has just started need not repeat what another applied. Pure."""

from collections.abc import Mapping
from typing import Any

from workslice_api.names import FIELD_MANAGER
from workslice_operator.foreign_fields import additions


def already_applied(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether a live object has all of the manifest, and nothing that an earlier manifest of ours brought and this one lacks.

    False where that cannot be told, as where the API writes a value otherwise: applying once more does no harm.
    """
    owned = [
        one.get("fieldsV1", {})
        for one in live["metadata"].get("managedFields") or []
        if one.get("manager") == FIELD_MANAGER and one.get("operation") == "Apply" and not one.get("subresource")
    ]
    if len(owned) != 1 or any(additions(owned[0], manifest)):
        return False
    return all(_contains(live.get(part), manifest.get(part)) for part in ("metadata", "spec"))


def _contains(live: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if not isinstance(live, Mapping):
            return not wanted and live is None
        # The API leaves out what is zero.
        return all(_contains(live[key], value) if key in live else not value for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_contains, live, wanted))
    return bool(live == wanted)
