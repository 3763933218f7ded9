"""docs/reference/api.md: every field of both resources, from the schema that the API server enforces."""

import json
import re
from collections.abc import Iterator
from typing import Any

from markdown_table import code, markdown_table

from workslice_api.base import IMMUTABLE, LIVE, ROLLS
from workslice_api.crdgen import pool_crd, profile_crd
from workslice_api.names import PAUSED_ANNOTATION, RENDERING_ANNOTATION, RENDERING_LATEST
from workslice_api.readable_rules import QUANTITY_MESSAGE

Schema = dict[str, Any]

INTRODUCTION = f"""# API reference

Group `workslice.dev`, version `v1alpha1`. `kubectl explain workspacepool.spec` and `kubectl explain workspaceprofile.spec` show the
same text. *Change* says what an edit of the field does:

- *live*: {LIVE.partition(": ")[2]}
- *rolls*: {ROLLS.partition(": ")[2]}
- *immutable*: {IMMUTABLE.partition(": ")[2]}

Annotations that people set:

- `{PAUSED_ANNOTATION}` on a pool or profile, with any value but `false`: the operator writes nothing for the pool, or for every pool
  of the profile ([more](../operations.md#pause)).
- `{RENDERING_ANNOTATION}={RENDERING_LATEST}` on a pool: its engines are replaced when an upgraded operator makes their pods otherwise,
  instead of at the next change ([more](../operations.md#engines-and-upgrades)).
"""

_DURATION = "must be a duration"
_TOLD_BY_THE_TYPE = (_DURATION, QUANTITY_MESSAGE)
_CHANGE = re.compile(r"\s*(Live|Rolls|Immutable): [^.]*\.")


def render_api_page() -> str:
    """The page as Markdown."""
    return INTRODUCTION + "".join(_kind(crd) for crd in (profile_crd(), pool_crd()))


def _kind(crd: Schema) -> str:
    names = crd["spec"]["names"]
    version = crd["spec"]["versions"][0]
    root = version["schema"]["openAPIV3Schema"]
    scope = "Cluster-scoped" if crd["spec"]["scope"] == "Cluster" else "Namespaced"
    columns = ", ".join(column["name"] for column in version["additionalPrinterColumns"] if not column.get("priority"))
    wide = ", ".join(column["name"] for column in version["additionalPrinterColumns"] if column.get("priority"))
    parts = [
        f"\n## {names['kind']}\n\n{root['description']}\n",
        f"\n{scope}. Short name: {', '.join(map(code, names['shortNames']))}; "
        f"category: {', '.join(map(code, names['categories']))}. Columns: {columns}; with `-o wide` also {wide}.\n",
    ]
    if scale := version["subresources"].get("scale"):
        parts.append(f"\n`kubectl scale` sets `{scale['specReplicasPath'].lstrip('.')}`.\n")
    if rules := list(_rules(root)):
        parts.append("\nBeyond types and bounds, these are refused:\n\n" + "".join(f"- {rule}.\n" for rule in rules))
    spec, status = root["properties"]["spec"], root["properties"]["status"]
    parts.append(f"\n### {names['kind']} spec\n\n")
    parts.append(markdown_table(("Field", "Type", "Default", "Change", "Meaning"), _spec_rows(spec)))
    parts.append(f"\n### {names['kind']} status\n\n")
    parts.append(markdown_table(("Field", "Type", "Meaning"), _status_rows(status)))
    return "".join(parts)


def _nodes(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Every schema below, parents before children, each with its dotted path; `[]` marks items and `{}` values of a map."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _nodes(f"{path}.{name}" if path else name, child)
    if isinstance(items := schema.get("items"), dict) and "properties" in items:
        for name, child in items["properties"].items():
            yield from _nodes(f"{path}[].{name}", child)


def _rules(root: Schema) -> Iterator[str]:
    for path, schema in _nodes("", root):
        for rule in schema.get("x-kubernetes-validations", []):
            if not rule["message"].startswith(_TOLD_BY_THE_TYPE):
                yield f"`{path}`: {rule['message']}" if path else rule["message"]


def _spec_rows(spec: Schema) -> Iterator[tuple[str, ...]]:
    for path, schema in _nodes("", spec):
        if not path or "properties" in schema:
            continue
        description = schema.get("description", "")
        change = _CHANGE.search(description)
        default = code(json.dumps(schema["default"])) if "default" in schema else _required(spec, path)
        yield (
            code(path),
            _type(schema),
            default,
            change[1].lower() if change else "",
            _CHANGE.sub("", description).strip(),
        )


def _required(spec: Schema, path: str) -> str:
    """Whether a field without a default must be set: always, only where its parent is, or not at all."""
    schema, optional_parent = spec, ""
    *parents, name = path.split(".")
    for depth, part in enumerate(parents):
        parent = part.removesuffix("[]")
        if part != parent or (
            parent not in schema.get("required", []) and "default" not in schema["properties"][parent]
        ):
            optional_parent = ".".join(parents[: depth + 1]).removesuffix("[]")
        schema = schema["properties"][parent]
        schema = schema["items"] if part != parent else schema
    if name not in schema.get("required", []):
        return ""
    return f"required in {code(optional_parent)}" if optional_parent else "required"


def _status_rows(status: Schema) -> Iterator[tuple[str, ...]]:
    for path, schema in _nodes("", status):
        if path and "properties" not in schema:
            yield code(path), _type(schema), schema.get("description", "")


def _type(schema: Schema) -> str:
    """Type and bounds in a few words."""
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in schema:
        return " or ".join(code(value) for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        most = schema["maxItems"]
        exactly = schema.get("minItems") == most
        return f"list of {'' if exactly else 'up to '}{most} {schema['items'].get('type', 'value')}{'s' if most > 1 else ''}"
    if kind == "object":
        entries = schema.get("maxProperties")
        return f"map of up to {entries} entries" if entries else "object, as in a pod"
    if schema.get("format") == "date-time":
        return "time"
    if kind in ("integer", "number"):
        low, high = schema.get("minimum"), schema.get("maximum")
        return kind if low is None and high is None else f"{kind} {low} to {high}"
    if any(_DURATION in rule["message"] for rule in schema.get("x-kubernetes-validations", [])):
        return "duration such as 90s or 5m"
    return f"string up to {schema['maxLength']}" if "maxLength" in schema else kind
