"""CustomResourceDefinitions from the models: JSON schema made structural, as the Kubernetes API wants it. Pure."""

from collections.abc import Sequence
from typing import Any, Final

from workslice_api import names
from workslice_api.base import KubeModel
from workslice_api.pool import POOL_RULES, WorkspacePool
from workslice_api.profile import PROFILE_RULES, WorkspaceProfile

Schema = dict[str, Any]
_DROPPED: Final = ("title", "$schema", "$defs", "discriminator", "examples", "propertyNames")
_UNSUPPORTED: Final = ("prefixItems", "patternProperties", "oneOf", "not")


def _condition_status(name: str, type_: str) -> Schema:
    return {"name": name, "type": "string", "jsonPath": f'.status.conditions[?(@.type=="{type_}")].status'}


def _condition_column(name: str, type_: str, field: str) -> Schema:
    path = f'.status.conditions[?(@.type=="{type_}")].{field}'
    return {"name": name, "type": "string", "jsonPath": path, "priority": 1}


_AGE: Final[Schema] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
POOL_COLUMNS: Final[list[Schema]] = [
    {"name": "Model", "type": "string", "jsonPath": ".spec.model"},
    {"name": "Class", "type": "string", "jsonPath": ".spec.requestClass.name"},
    {"name": "Profile", "type": "string", "jsonPath": ".spec.profileRef.name"},
    {"name": "Desired", "type": "integer", "jsonPath": ".status.desiredReplicas"},
    {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"},
    {"name": "Queue", "type": "integer", "jsonPath": ".status.queueDepth"},
    _condition_status("Ready-Condition", "Ready"),
    _AGE,
    {"name": "Slice", "type": "string", "jsonPath": ".status.slices.profile", "priority": 1},
    {"name": "Granted", "type": "integer", "jsonPath": ".status.slices.granted", "priority": 1},
    _condition_column("Reason", "Ready", "reason"),
    _condition_column("Message", "Ready", "message"),
]
PROFILE_COLUMNS: Final[list[Schema]] = [
    {"name": "Model", "type": "string", "jsonPath": ".spec.model.source"},
    {"name": "Slice", "type": "string", "jsonPath": ".spec.slice.profiles[0]"},
    {"name": "Tokens", "type": "integer", "jsonPath": ".spec.workspace.maxTokens"},
    {"name": "Host", "type": "string", "jsonPath": ".spec.memory.host"},
    {"name": "Pools", "type": "integer", "jsonPath": ".status.poolCount"},
    _condition_status("Accepted", "Accepted"),
    _condition_status("Fits", "Fits"),
    _AGE,
    _condition_column("Message", "Accepted", "message"),
    {"name": "Chosen", "type": "string", "jsonPath": ".status.slice", "priority": 1},
    _condition_column("Fit", "Fits", "message"),
]


def _is_null(schema: Schema) -> bool:
    return schema == {"type": "null"}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return value


def _structural(schema: Schema, defs: dict[str, Schema], path: str, defaults: bool) -> Schema:
    """One schema node made structural; `defaults` says whether default values are kept (spec) or not (status)."""
    if "$ref" in schema:
        target = defs[schema["$ref"].rsplit("/", 1)[-1]]
        return _structural({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, defs, path, defaults)
    alternatives = schema.get("anyOf", [])
    if any(map(_is_null, alternatives)):
        rest = [one for one in alternatives if not _is_null(one)]
        if len(rest) != 1:
            raise ValueError(f"{path}: a union of several types has no structural schema")
        own = {keyword: value for keyword, value in schema.items() if keyword != "anyOf"}
        return _structural({**rest[0], **own}, defs, path, defaults)
    if alternatives and not schema.get("x-kubernetes-int-or-string"):
        raise ValueError(f"{path}: a union of several types has no structural schema")
    for keyword in _UNSUPPORTED:
        if keyword in schema:
            raise ValueError(f"{path}: {keyword} has no structural counterpart")
    out: Schema = {}
    for keyword, value in schema.items():
        if keyword in _DROPPED or (keyword == "default" and (not defaults or value is None)):
            continue
        if keyword == "properties":
            out[keyword] = {name: _structural(one, defs, f"{path}.{name}", defaults) for name, one in value.items()}
        elif keyword == "items":
            out[keyword] = _structural(value, defs, f"{path}[]", defaults)
        elif keyword == "additionalProperties":
            if isinstance(value, dict):
                out[keyword] = _structural(value, defs, f"{path}{{}}", defaults)
        elif keyword == "description":
            out[keyword] = " ".join(value.split())
        elif keyword == "const":
            out["enum"] = [value]
        elif keyword in ("exclusiveMinimum", "exclusiveMaximum"):
            out[keyword.replace("exclusiveM", "m")] = value
            out[keyword] = True
        else:
            out[keyword] = value
    if out.get("type") == "integer":
        out.setdefault("format", "int64")
    if out.get("x-kubernetes-preserve-unknown-fields"):
        out.pop("additionalProperties", None)
    if "properties" in out and isinstance(out.get("default"), dict):
        # Only what has a value: the API server checks rules against this very object, before it fills in nested defaults.
        out["default"] = _without_nulls(out["default"])
    return out


def _root_schema(model: type[KubeModel], rules: Sequence[Schema]) -> Schema:
    raw = model.model_json_schema(by_alias=True, mode="validation")
    defs = raw.get("$defs", {})
    spec = _structural(raw["properties"]["spec"], defs, "spec", defaults=True)
    status = _structural(raw["properties"]["status"], defs, "status", defaults=False)
    root: Schema = {
        "type": "object",
        "description": " ".join(raw.get("description", "").split()),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "Always workslice.dev/v1alpha1."},
            "kind": {"type": "string", "description": f"Always {model.__name__}."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
    if rules:
        root["x-kubernetes-validations"] = list(rules)
    return root


def _crd(kind: str, plural: str, short: str, scope: str, version: Schema) -> Schema:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "scope": scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": [names.CATEGORY],
            },
            "versions": [{"name": names.VERSION, "served": True, "storage": True, **version}],
        },
    }


def profile_crd() -> Schema:
    """The CustomResourceDefinition of WorkspaceProfile."""
    version = {
        "schema": {"openAPIV3Schema": _root_schema(WorkspaceProfile, PROFILE_RULES)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": PROFILE_COLUMNS,
    }
    return _crd(names.PROFILE_KIND, names.PROFILE_PLURAL, "wsprof", "Cluster", version)


def pool_crd() -> Schema:
    """The CustomResourceDefinition of WorkspacePool, with its scale subresource."""
    version = {
        "schema": {"openAPIV3Schema": _root_schema(WorkspacePool, POOL_RULES)},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "selectableFields": [{"jsonPath": ".spec.profileRef.name"}],
        "additionalPrinterColumns": POOL_COLUMNS,
    }
    return _crd(names.POOL_KIND, names.POOL_PLURAL, "wspool", "Namespaced", version)
