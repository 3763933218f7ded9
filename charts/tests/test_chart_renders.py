"""The chart against golden files: run with UPDATE_GOLDEN=1 after a wanted change and read the difference."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendered_chart import CHART, NAMESPACE, RELEASE, helm, named, render

from workslice_operator.installation import installed_by_chart
from workslice_operator.settings import running_settings

GOLDEN = Path(__file__).parent / "golden"
NO_CRDS = {"crds": {"enabled": False}}
VALUES: dict[str, dict[str, Any]] = {
    "default": NO_CRDS,
    "two-routers-with-keys": {
        **NO_CRDS,
        "router": {
            "replicas": 2,
            "drainTimeout": 600,
            "maxBodyBytes": 268435456,
            "service": {"type": "LoadBalancer", "port": 8080, "annotations": {"example.com/internal": "true"}},
        },
        "apiKeys": {"existingSecret": "callers"},
        "modelOwners": {"llama-3.1-8b": "team-a", "tiny": "team-b"},
        "networkPolicy": {
            "monitoringNamespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
        },
    },
    "placed": {
        **NO_CRDS,
        "fullnameOverride": "llm",
        "imagePullSecrets": [{"name": "registry"}],
        "networkPolicy": {"enabled": False},
        "operator": {
            "image": {"repository": "localhost:5000/workslice/operator", "tag": "abc", "pullPolicy": "Never"},
            "logLevel": "debug",
            "poolsRolledAtOnce": 5,
            "nodeSelector": {"pool": "system"},
            "tolerations": [{"key": "system", "operator": "Exists"}],
            "podLabels": {"team": "platform"},
            "podAnnotations": {"example.com/note": "operator"},
        },
        "router": {
            "image": {"repository": "localhost/workslice/router", "tag": "abc"},
            "affinity": {"podAntiAffinity": {}},
            "nodeSelector": {"pool": "system"},
        },
    },
}


@pytest.mark.parametrize("name", VALUES)
def test_values_render_the_golden_manifests(name: str) -> None:
    rendered = yaml.safe_dump_all(render(VALUES[name]), sort_keys=False, width=120)
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(rendered)
    assert rendered == file.read_text(), "run again with UPDATE_GOLDEN=1 if the change is wanted"


def test_helm_lint_finds_nothing() -> None:
    result = helm("lint", "--strict", str(CHART))
    assert result.returncode == 0, result.stdout + result.stderr


def test_crds_come_with_the_chart_and_stay_after_it() -> None:
    crds = [one for one in render({}) if one["kind"] == "CustomResourceDefinition"]
    assert [one["metadata"]["name"] for one in crds] == [
        "workspacepools.workslice.dev",
        "workspaceprofiles.workslice.dev",
    ]
    assert {one["metadata"]["annotations"]["helm.sh/resource-policy"] for one in crds} == {"keep"}


def test_crds_can_be_left_out() -> None:
    assert not [one for one in render(NO_CRDS) if one["kind"] == "CustomResourceDefinition"]


def test_a_pod_has_its_drain_time_before_it_is_killed() -> None:
    for timeout in (1, 120, 7200):
        router = named(render({**NO_CRDS, "router": {"drainTimeout": timeout}}), "Deployment", "workslice-router")
        pod = router["spec"]["template"]["spec"]
        assert f"--drain-timeout={timeout}" in pod["containers"][0]["args"]
        assert pod["terminationGracePeriodSeconds"] > timeout


@pytest.mark.parametrize(("values", "budgets"), [({"replicas": 1}, 0), ({"replicas": 2}, 1)])
def test_only_several_routers_have_a_disruption_budget(values: dict[str, Any], budgets: int) -> None:
    found = [one for one in render({**NO_CRDS, "router": values}) if one["kind"] == "PodDisruptionBudget"]
    assert len(found) == budgets


def test_selectors_that_the_operator_is_told_match_the_pods() -> None:
    objects = render(NO_CRDS)
    operator = named(objects, "Deployment", "workslice-operator")["spec"]["template"]
    arguments = dict(argument[2:].split("=", 1) for argument in operator["spec"]["containers"][0]["args"])
    for component in ("operator", "router"):
        selector = dict(part.split("=") for part in arguments[f"{component}-selector"].split(","))
        pod = named(objects, "Deployment", f"workslice-{component}")["spec"]["template"]["metadata"]["labels"]
        assert selector.items() <= pod.items()
        assert selector["app.kubernetes.io/component"] == component


def test_without_a_cluster_children_are_rendered_for_the_selectors_that_the_chart_gives() -> None:
    operator = named(render(NO_CRDS), "Deployment", "workslice-operator")["spec"]["template"]["spec"]["containers"][0]
    told, _ = running_settings(operator["args"], NAMESPACE)
    assert told == installed_by_chart(NAMESPACE, RELEASE)


def test_the_operator_is_told_a_service_that_publishes_leaving_routers() -> None:
    objects = render(NO_CRDS)
    operator = named(objects, "Deployment", "workslice-operator")["spec"]["template"]["spec"]["containers"][0]
    (name,) = [a.partition("=")[2] for a in operator["args"] if a.startswith("--router-service=")]
    service = named(objects, "Service", name)["spec"]
    assert service["publishNotReadyAddresses"] is True
    assert [port["name"] for port in service["ports"]] == ["admin"]


def test_no_name_outgrows_kubernetes() -> None:
    for one in render({**NO_CRDS, "router": {"replicas": 2}}, release="r" * 53):
        assert len(one["metadata"]["name"]) <= 63


@pytest.mark.parametrize("values", [{}, {"fullnameOverride": "llm"}], ids=["names of the release", "names of the user"])
def test_cluster_wide_names_are_the_same_in_every_installation_so_that_there_is_one(values: dict[str, Any]) -> None:
    found = [one for one in render({**NO_CRDS, **values}, release="other") if "namespace" not in one["metadata"]]
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        (kind, f"workslice-{part}") for kind in ("ClusterRole", "ClusterRoleBinding") for part in ("operator", "router")
    ]


def test_no_object_looks_like_the_child_of_a_pool() -> None:
    for one in render({}):
        assert one["metadata"].get("labels", {}).get("app.kubernetes.io/managed-by") != "workslice"


@pytest.mark.parametrize(("keys", "key_header"), [("", False), ("callers", True)])
def test_notes_show_a_first_call_that_fits_the_values(keys: str, key_header: bool) -> None:
    arguments = ["--set", f"apiKeys.existingSecret={keys}", "--set", "router.service.port=8080"]
    result = helm("install", "demo", str(CHART), "--namespace", "llm", "--dry-run=client", *arguments)
    assert result.returncode == 0, result.stderr
    notes = result.stdout.partition("NOTES:")[2]
    assert "kubectl -n llm port-forward service/demo-workslice 8000:8080" in notes
    assert "http://demo-workslice.llm.svc:8080/v1" in notes
    assert ("Authorization: Bearer" in notes) == key_header
