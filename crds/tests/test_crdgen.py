"""The generated CRDs: structural, bounded, documented, and the files in the tree are what the models say."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workslice_api.base import IMMUTABLE, LIVE, ROLLS
from workslice_api.crdgen import pool_crd, profile_crd
from workslice_api.names import PAUSED_ANNOTATION, RENDERING_ANNOTATION, RENDERING_LATEST
from workslice_api.quantity import QUANTITY_PATTERN

ROOT = Path(__file__).resolve().parent.parent.parent
CRDS = {"profile": profile_crd(), "pool": pool_crd()}


def schema_of(crd: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from nodes(schema[keyword], f"{path}.{keyword}")


def test_checked_in_files_are_what_the_models_say() -> None:
    spec = importlib.util.spec_from_file_location("generate_crds", ROOT / "crds" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    stale = [
        path.name for path, text in generate.generated_files().items() if not path.exists() or path.read_text() != text
    ]
    assert stale == [], "run `make generate`"


@pytest.mark.parametrize("crd", CRDS.values(), ids=CRDS.keys())
def test_every_string_list_and_map_of_the_spec_is_bounded(crd: dict[str, Any]) -> None:
    unbounded = []
    for path, node in nodes(schema_of(crd)["properties"]["spec"], "spec"):
        kind = node.get("type")
        free_form = node.get("x-kubernetes-preserve-unknown-fields")
        if kind == "string" and "maxLength" not in node and "enum" not in node:
            unbounded.append(path)
        if kind == "array" and "maxItems" not in node:
            unbounded.append(path)
        if kind == "object" and "properties" not in node and not free_form and "maxProperties" not in node:
            unbounded.append(path)
    assert unbounded == []


@pytest.mark.parametrize("crd", CRDS.values(), ids=CRDS.keys())
def test_every_field_has_a_description(crd: dict[str, Any]) -> None:
    bare = [
        path
        for path, node in nodes(schema_of(crd))
        if path
        and path != ".metadata"
        and not path.endswith((".items", ".additionalProperties"))
        and not node.get("description")
    ]
    assert bare == []


@pytest.mark.parametrize("crd", CRDS.values(), ids=CRDS.keys())
def test_every_setting_says_what_a_change_of_it_does(crd: dict[str, Any]) -> None:
    def silent(node: dict[str, Any], path: str) -> Iterator[str]:
        words = [word for word in (LIVE, ROLLS, IMMUTABLE) if word in node.get("description", "")]
        assert len(words) <= 1, path
        if words:
            return
        if "properties" not in node:
            yield path
        for name, child in node.get("properties", {}).items():
            yield from silent(child, f"{path}.{name}")

    assert list(silent(schema_of(crd)["properties"]["spec"], "spec")) == []


@pytest.mark.parametrize("crd", CRDS.values(), ids=CRDS.keys())
def test_schema_holds_no_keyword_that_kubernetes_refuses(crd: dict[str, Any]) -> None:
    refused = {
        "$ref",
        "$defs",
        "title",
        "const",
        "oneOf",
        "prefixItems",
        "patternProperties",
        "propertyNames",
        "examples",
    }
    found = [(path, keyword) for path, node in nodes(schema_of(crd)) for keyword in refused & node.keys()]
    both = [path for path, node in nodes(schema_of(crd)) if "properties" in node and "additionalProperties" in node]
    assert (found, both) == ([], [])


def test_replicas_has_a_default_so_that_the_scale_subresource_always_answers() -> None:
    assert schema_of(CRDS["pool"])["properties"]["spec"]["properties"]["replicas"]["default"] == 1


def test_status_has_no_defaults_so_that_unknown_is_not_mistaken_for_zero() -> None:
    found = [path for path, node in nodes(schema_of(CRDS["pool"])["properties"]["status"]) if "default" in node]
    assert found == []


def test_nested_objects_have_their_defaults_written_out_because_rules_are_checked_against_them() -> None:
    spec = schema_of(CRDS["pool"])["properties"]["spec"]["properties"]
    assert spec["scaling"]["default"] == {
        "mode": "Fixed",
        "targetPerReplica": 8,
        "headroom": 0,
        "scaleDownWindow": "5m",
        "schedule": [],
    }


def test_patterns_that_people_meet_answer_with_a_sentence() -> None:
    spec = schema_of(CRDS["profile"])["properties"]["spec"]["properties"]
    item = spec["slice"]["properties"]["profiles"]["items"]
    assert "pattern" not in item
    assert "such as 1g.10gb" in item["x-kubernetes-validations"][0]["message"]


def test_a_setting_is_called_immutable_exactly_where_the_api_server_refuses_a_change() -> None:
    root = schema_of(CRDS["pool"])
    called = {path for path, node in nodes(root) if IMMUTABLE in node.get("description", "")}
    rules = [one["rule"] for one in root["x-kubernetes-validations"]]
    assert called == {".spec.model"}
    assert [rule for rule in rules if "oldSelf" in rule] == ["self.spec.model == oldSelf.spec.model"]


def test_a_wrong_quantity_is_repeated_with_what_to_write() -> None:
    memory = schema_of(CRDS["profile"])["properties"]["spec"]["properties"]["memory"]["properties"]
    (rule,) = memory["host"]["x-kubernetes-validations"]
    assert "pattern" not in memory["host"]
    assert rule["rule"] == f"type(self) == string ? self.matches(r'{QUANTITY_PATTERN}') : self >= 0"
    assert rule["messageExpression"].startswith(
        "self + ' is no Kubernetes quantity: write a number of at least 0 with k, M"
    )
    assert memory["kvCache"]["x-kubernetes-validations"] == [rule]


def test_kubectl_explain_names_the_annotations_that_people_set() -> None:
    pool, profile = (schema_of(CRDS[name])["description"] for name in ("pool", "profile"))
    assert PAUSED_ANNOTATION in profile
    assert PAUSED_ANNOTATION in pool
    assert f"{RENDERING_ANNOTATION}={RENDERING_LATEST}" in pool
