"""Whether a child is as it was applied last: by what this process remembers of it, else by the child itself. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from workslice_operator.already_applied import already_applied
from workslice_operator.kube_api import Object


def is_applied(
    manifest: Mapping[str, Any], children: Mapping[str, Object], applied: dict[str, tuple[str, str]]
) -> bool:
    """Whether exactly this was applied before and nobody has touched the child since: by what this process remembers, else by the child."""
    kind = manifest["kind"]
    live = children.get(kind)
    if live is None:
        return False
    both = digest(manifest), content(live)
    if kind not in applied and already_applied(manifest, live):
        applied[kind] = both
    return applied.get(kind) == both


def digest(value: Any) -> str:
    """Of anything that JSON can hold."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def content(child: Object) -> str:
    """A digest that changes when anybody edits a child, but not when its status moves."""
    metadata = child["metadata"]
    version = (
        metadata.get("generation") or metadata["resourceVersion"]
    )  # Services have no generation, nor a busy status
    return digest([metadata.get("uid"), version, metadata.get("labels"), metadata.get("ownerReferences")])
