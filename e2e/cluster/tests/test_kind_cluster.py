"""What kind is told; kind itself needs Docker and is not run here."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workslice_cluster import engine_environment, inventory, models
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.node_labels import node_labels
from workslice_cluster.repository import repository

sys.path.insert(0, str(repository()))

from demo import kind_cluster

Calls = list[list[str]]


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Calls]:
    """Replaces the program: returns how it is called, once told which clusters it has."""
    monkeypatch.setenv("WORKSLICE_CACHE", str(tmp_path / "cache"))

    def with_clusters(clusters: str) -> Calls:
        calls: Calls = []

        def run(argv: list[str], **_: Any) -> str:
            calls.append(argv)
            return clusters if argv[1:3] == ["get", "clusters"] else ""

        monkeypatch.setattr(kind_cluster, "run", run)
        return calls

    return with_clusters


def made_by_the_demo() -> None:
    kind_cluster.kubeconfig().parent.mkdir(parents=True)
    kind_cluster.kubeconfig().touch()


def test_the_node_is_labelled_as_gpu_feature_discovery_would_and_sees_the_folders() -> None:
    made = kind_cluster.configuration([Path("/cache/models")])
    (node,) = made["nodes"]
    assert node["labels"] == node_labels(inventory.DEFAULT)
    assert node["extraMounts"] == [
        {"hostPath": "/cache/models", "containerPath": "/cache/models", "readOnly": True},
    ]


def test_a_new_cluster_is_made_from_the_configuration_and_sees_models_and_engine(
    kind: Callable[[str], Calls], tmp_path: Path
) -> None:
    calls = kind("other\n")
    kubeconfig = kind_cluster.start()
    create = calls[-1]
    assert create[:5] == ["kind", "create", "cluster", "--name", "workslice"]
    assert create[create.index("--kubeconfig") + 1] == str(kubeconfig)
    written = json.loads(Path(create[create.index("--config") + 1]).read_text())
    seen = {mount["containerPath"] for mount in written["nodes"][0]["extraMounts"]}
    assert seen == {str(models.folder()), str(engine_environment.folder().parent)}
    assert all(Path(path).is_dir() for path in seen)
    assert kubeconfig.is_relative_to(tmp_path), "the user's own kubeconfig is left alone"


def test_a_cluster_that_is_there_is_used_again(kind: Callable[[str], Calls]) -> None:
    calls = kind("other\nworkslice\n")
    made_by_the_demo()
    kind_cluster.start()
    assert [call[1:3] for call in calls] == [["get", "clusters"], ["export", "kubeconfig"]]


def test_archives_are_loaded_one_by_one(kind: Callable[[str], Calls]) -> None:
    calls = kind("")
    kind_cluster.load(Path("/a.tar"), Path("/b.tar"))
    assert calls == [["kind", "load", "image-archive", f"/{one}.tar", "--name", "workslice"] for one in "ab"]


def test_deleting_touches_no_other_cluster_and_forgets_its_own(kind: Callable[[str], Calls]) -> None:
    calls = kind("")
    made_by_the_demo()
    kind_cluster.delete()
    assert calls[0][:5] == ["kind", "delete", "cluster", "--name", "workslice"]
    with pytest.raises(ClusterError, match="nothing was deleted"):
        kind_cluster.delete()


def test_a_cluster_of_the_same_name_that_the_demo_did_not_make_is_neither_used_nor_deleted(
    kind: Callable[[str], Calls],
) -> None:
    calls = kind("workslice\n")
    with pytest.raises(ClusterError, match="that the demo did not make"):
        kind_cluster.start()
    with pytest.raises(ClusterError, match="has made no cluster of kind"):
        kind_cluster.delete()
    assert [call[1:3] for call in calls] == [["get", "clusters"]]


def test_without_kind_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("WORKSLICE_CACHE", str(tmp_path))
    with pytest.raises(
        ClusterError, match=r"install kind .* or use CLUSTER=embedded.*the program kind is not installed"
    ):
        kind_cluster.start()


def test_without_docker_the_error_carries_what_kind_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "kind"
    program.write_text("#!/bin/sh\necho 'ERROR: failed to list clusters: docker is not running' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("WORKSLICE_CACHE", str(tmp_path))
    with pytest.raises(ClusterError, match=r"start Docker(.|\n)*docker is not running"):
        kind_cluster.start()
