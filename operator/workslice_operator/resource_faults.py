"""What the API server would refuse in a pool or profile, found without one: unknown fields, types and bounds, rules. Pure."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from pydantic import ValidationError

from workslice_api.crdgen import pool_crd, profile_crd
from workslice_api.names import API_VERSION, POOL_KIND, PROFILE_KIND
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.crd_rules import broken_here, broken_rules

MODELS: Final[Mapping[str, type[WorkspacePool] | type[WorkspaceProfile]]] = {
    POOL_KIND: WorkspacePool,
    PROFILE_KIND: WorkspaceProfile,
}


def resource_faults(raw: Mapping[str, Any]) -> list[str]:
    """Every fault of an object of a kind in MODELS, each with its field; empty when the API server would take it."""
    if raw.get("apiVersion") != API_VERSION:
        return [f"apiVersion: must be {API_VERSION}, not {raw.get('apiVersion')!r}"]
    schema = _schema(raw["kind"])
    found = [f'unknown field "{path}"' for path in _unknown_fields(schema, raw, "") if not path.startswith("metadata.")]
    try:
        model = MODELS[raw["kind"]].model_validate(raw)
    except ValidationError as error:
        wrong = error.errors(include_url=False)
        return found + [_fault(schema, raw, tuple(one["loc"]), one["msg"]) for one in wrong]
    metadata = {"name": model.metadata.name}
    return found + [_said(path, text) for path, text in broken_rules(schema, model.to_wire() | {"metadata": metadata})]


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    crd = {POOL_KIND: pool_crd, PROFILE_KIND: profile_crd}[kind]()
    schema: Mapping[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _unknown_fields(schema: Mapping[str, Any], value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, below in enumerate(value):
            yield from _unknown_fields(schema.get("items", {}), below, f"{path}[{index}]")
    elif isinstance(value, Mapping) and "properties" in schema:
        for name, below in value.items():
            inside = f"{path}.{name}" if path else str(name)
            if name not in schema["properties"]:
                yield inside
            elif not schema["properties"][name].get("x-kubernetes-preserve-unknown-fields"):
                yield from _unknown_fields(schema["properties"][name], below, inside)


def _fault(schema: Mapping[str, Any], raw: Any, location: tuple[str | int, ...], message: str) -> str:
    """One fault of the model, in the words of the CRD where a rule of the CRD says the same."""
    node, value, path = schema, raw, ""
    for step in location:
        node = node.get("items", {}) if isinstance(step, int) else node.get("properties", {}).get(step, {})
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return _said(path, message)
    try:
        rule = next(broken_here(node, value), None)
    except (RuntimeError, TypeError, ValueError):
        rule = None  # of another type than the rule expects
    return _said(path, rule or message)


def _said(path: str, message: str) -> str:
    return f"{path}: {message}" if path else message
