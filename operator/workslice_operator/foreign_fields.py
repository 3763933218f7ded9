"""What others have added to a pool's pod template. Server-side apply restores our fields but never removes theirs, so we name them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from workslice_api.names import FIELD_MANAGER

_OURS: Final = (FIELD_MANAGER, "kube-controller-manager")
_RESTARTED_AT: Final = "metadata.annotations[kubectl.kubernetes.io/restartedAt]"
"""`kubectl rollout restart` is a wanted way to restart engines."""

_Path = tuple[str, ...]


def foreign_fields(managed_fields: Iterable[Mapping[str, Any]], manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Names such as `container engine: env PROXY (by kubectl-edit)`, sorted.

    `managed_fields` is the live Deployment's. A field of `manifest` is ours whoever wrote it last: the next apply restores it.
    """
    found = set()
    for entry in managed_fields:
        manager = entry.get("manager", "")
        if manager in _OURS or entry.get("subresource"):
            continue
        owned = entry.get("fieldsV1", {}).get("f:spec", {}).get("f:template", {})
        for path in additions(owned, manifest["spec"]["template"]):
            name = _describe(path)
            if name != _RESTARTED_AT:
                found.add(f"{name} (by {manager or 'an unnamed manager'})")
    return tuple(sorted(found))


def additions(owned: Mapping[str, Any], ours: Any, path: _Path = ()) -> Iterator[_Path]:
    """Paths in `owned` that `ours` does not have: of a foreign item of a list the item, else every single field."""
    for key, below in owned.items():
        if key == ".":
            continue
        present, value = _step(ours, key)
        if below.keys() - {"."} and (present or key.startswith("f:")):
            yield from additions(below, value, (*path, key))
        elif not present:
            yield (*path, key)


def _step(value: Any, key: str) -> tuple[bool, Any]:
    kind, _, name = key.partition(":")
    if kind == "f" and isinstance(value, Mapping):
        return name in value, value.get(name)
    if isinstance(value, Sequence) and not isinstance(value, str):
        if kind == "k":
            wanted = json.loads(name)
            match = next((one for one in value if _matches(one, wanted)), None)
            return match is not None, match
        if kind == "v":
            return json.loads(name) in value, None
    return False, None


def _matches(item: Any, wanted: Mapping[str, Any]) -> bool:
    # A port's protocol is part of its key and may be left to its default.
    return isinstance(item, Mapping) and all(item.get(key, "TCP") == value for key, value in wanted.items())


def _describe(path: _Path) -> str:
    if len(path) >= 3 and path[0] == "f:spec" and path[1] in ("f:containers", "f:initContainers"):
        container = f"{'container' if path[1] == 'f:containers' else 'init container'} {_key_name(path[2])}"
        rest = path[3:]
        if not rest:
            return container
        if rest[0] == "f:env" and len(rest) > 1:
            return f"{container}: env {_key_name(rest[1])}"
        return f"{container}: {_dotted(rest)}"
    return _dotted(path[1:] if path[0] == "f:spec" else path)


def _key_name(step: str) -> str:
    values = json.loads(step.removeprefix("k:")) if step.startswith("k:") else {}
    return str(values.get("name", "")) or ",".join(str(one) for one in values.values())


def _dotted(path: Sequence[str]) -> str:
    text = ""
    for step in path:
        kind, _, name = step.partition(":")
        if kind == "k":
            text += f"[{_key_name(step)}]"
        elif "." in name or "/" in name:
            text += f"[{name}]"
        else:
            text += f".{name}" if text else name
    return text
