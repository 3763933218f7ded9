"""How an object would change, as a unified diff of its YAML. Pure."""

import difflib
from collections.abc import Mapping
from typing import Any, Final

import yaml

_KEPT_BY_THE_API: Final = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink")


def live_difference(name: str, live: Mapping[str, Any] | None, planned: Mapping[str, Any]) -> str:
    """Empty when nothing would change; `live` is None for an object that would be made."""
    before, after = _lines(live), _lines(planned)
    diff = difflib.unified_diff(before, after, f"{name} (live)", f"{name} (planned)", n=3)
    return "".join(diff)


def _lines(raw: Mapping[str, Any] | None) -> list[str]:
    if raw is None:
        return []
    metadata = {key: value for key, value in raw["metadata"].items() if key not in _KEPT_BY_THE_API}
    shown = {key: value for key, value in raw.items() if key != "status"} | {"metadata": metadata}
    return yaml.safe_dump(shown, sort_keys=True, width=120).splitlines(keepends=True)
