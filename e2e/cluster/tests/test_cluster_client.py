"""kubectl and helm reach the cluster that was chosen, whatever the caller has exported for helm."""

import sys
from pathlib import Path

import pytest

from workslice_cluster.repository import repository

sys.path.insert(0, str(repository()))

from demo.cluster_client import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A cluster whose helm prints what it was called with and its environment."""
    program = tmp_path / "helm"
    program.write_text('#!/bin/sh\necho "$@"\nenv\n')
    program.chmod(0o755)
    return Cluster(tmp_path / "kubeconfig", Path("/none"), program)


@pytest.mark.parametrize(
    "name",
    ["HELM_KUBECONTEXT", "HELM_KUBEAPISERVER", "HELM_KUBETOKEN", "HELM_KUBEASUSER", "HELM_NAMESPACE", "HELM_DRIVER"],
)
def test_what_leads_helm_to_another_cluster_or_namespace_is_not_passed_on(
    name: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "elsewhere")
    assert "elsewhere" not in cluster.helm("list")


def test_the_rest_of_the_environment_is_passed_on(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELM_CACHE_HOME", "/somewhere")
    said = cluster.helm("list").splitlines()
    assert said[0] == f"--kubeconfig={cluster.kubeconfig} list"
    assert "HELM_CACHE_HOME=/somewhere" in said
