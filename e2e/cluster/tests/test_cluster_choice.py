"""Which cluster the demo and the end-to-end tests take, and what they say before they change anything on one of others."""

import sys
from pathlib import Path

import pytest

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.repository import repository

sys.path.insert(0, str(repository()))

from demo import given_cluster, installation
from demo.cluster_choice import ClusterChoice, cluster_choice


@pytest.fixture(autouse=True)
def _nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLUSTER", "KUBECONFIG", "WORKSLICE_ENDPOINT", given_cluster.MODELS, *given_cluster.IMAGES):
        monkeypatch.delenv(name, raising=False)


def test_a_kubeconfig_in_the_shell_chooses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/etc/somebodys-cluster")
    assert cluster_choice() is ClusterChoice.EMBEDDED


def test_an_unknown_word_is_answered_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "minikube")
    with pytest.raises(ClusterError, match="embedded, kubeconfig, kind"):
        cluster_choice()


@pytest.mark.parametrize(
    ("named", "says"), [("", "KUBECONFIG is not set"), ("/no/such/file", "no file"), ("/a:/b", "several files")]
)
def test_a_kubeconfig_that_is_not_one_file_is_refused(named: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", named)
    with pytest.raises(ClusterError, match=says):
        installation.start_cluster()


def test_images_that_are_not_named_are_asked_for_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").touch()
    monkeypatch.setenv("CLUSTER", "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("WORKSLICE_ROUTER_IMAGE", "registry.test/router:1")
    with pytest.raises(ClusterError, match="set WORKSLICE_OPERATOR_IMAGE, WORKSLICE_ENGINE_IMAGE to"):
        installation.start_cluster()


@pytest.mark.parametrize("wrong", ["router", "registry.test:5000/router", "registry.test/router@sha256:abc"])
def test_an_image_without_a_tag_is_refused(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in given_cluster.IMAGES:
        monkeypatch.setenv(name, "registry.test:5000/good:1")
    monkeypatch.setenv("WORKSLICE_ROUTER_IMAGE", wrong)
    with pytest.raises(ClusterError, match=r"WORKSLICE_ROUTER_IMAGE is .*NAME:TAG"):
        given_cluster.image_references()


def test_the_folder_of_models_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER", "kubeconfig")
    with pytest.raises(ClusterError, match=r"WORKSLICE_MODELS must name a folder .* model tiny"):
        installation.models_directory("tiny")
    monkeypatch.setenv("WORKSLICE_MODELS", "/models")
    assert installation.models_directory("tiny") == Path("/models")


@pytest.mark.parametrize("other", ["kubeconfig", "kind"])
def test_the_tool_of_the_embedded_cluster_is_left_alone_when_another_is_meant(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER", other)
    with pytest.raises(ClusterError, match=f"acts on the machine of the embedded cluster, and CLUSTER is {other}"):
        installation.cluster_tool("down")
