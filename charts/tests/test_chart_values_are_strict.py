"""A misspelt or senseless value fails the installation and says which one."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendered_chart import CHART, refusal

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "misspelt key": ({"router": {"replcias": 2}}, "replcias"),
    "misspelt section": ({"routers": {"replicas": 2}}, "routers"),
    "no routers": ({"router": {"replicas": 0}}, "/router/replicas"),
    "text for a number": ({"router": {"replicas": "two"}}, "/router/replicas"),
    "no drain time": ({"router": {"drainTimeout": 0}}, "/router/drainTimeout"),
    "unknown log level": ({"operator": {"logLevel": "loud"}}, "/operator/logLevel"),
    "no pool at a time": ({"operator": {"poolsRolledAtOnce": 0}}, "/operator/poolsRolledAtOnce"),
    "unknown service type": ({"router": {"service": {"type": "ExternalName"}}}, "/router/service/type"),
    "owner that is no namespace": ({"modelOwners": {"tiny": "Team A"}}, "/modelOwners/tiny"),
    "secret name with a slash": ({"apiKeys": {"existingSecret": "a/b"}}, "/apiKeys/existingSecret"),
    "label that selects pods": ({"router": {"podLabels": {"app.kubernetes.io/name": "x"}}}, "/router/podLabels"),
    "tag inside the repository": (
        {"router": {"image": {"repository": "registry.test/router:1"}}},
        "/router/image/repository",
    ),
    "pull secret as text": ({"imagePullSecrets": ["registry"]}, "/imagePullSecrets/0"),
    "claim in resources": ({"router": {"resources": {"claims": []}}}, "claims"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_wrong_values_are_refused_by_name(case: str) -> None:
    values, telling = REFUSED[case]
    assert telling in refusal(values)


def test_every_object_of_the_schema_is_closed_or_a_map() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    free = {"global", "affinity", "items"}  # as in Kubernetes, whose API server checks them

    def walk(node: Any, name: str) -> None:
        if not isinstance(node, dict):
            return
        if node.get("type") == "object" and name not in free:
            assert "additionalProperties" in node, name
        for key, child in node.items():
            walk(child, key)

    walk(schema, "")


def test_every_value_is_in_the_schema_and_every_key_of_the_schema_has_a_default() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load(Path(CHART / "values.yaml").read_text())

    def resolve(node: dict[str, Any]) -> dict[str, Any]:
        return schema["definitions"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node

    def compare(node: dict[str, Any], value: Any, path: str) -> None:
        properties = resolve(node).get("properties")
        if properties is None or path in {".networkPolicy.monitoringNamespaceSelector"} or path.endswith(".resources"):
            return
        assert set(properties) - {"global"} == set(value), path
        for key in value:
            compare(properties[key], value[key], f"{path}.{key}")

    compare(schema, values, "")
