import sys
from pathlib import Path

import pytest

from workslice_cluster import instance
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.repository import repository

sys.path.insert(0, str(repository()))

from demo.cluster_client import foreign_kubeconfig


def test_without_kubeconfig_the_embedded_cluster_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert foreign_kubeconfig() is None


def test_the_kubeconfig_that_the_demo_prints_means_the_embedded_cluster_even_when_it_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(instance.from_environment().kubeconfig))
    assert foreign_kubeconfig() is None


def test_another_file_is_another_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").touch()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert foreign_kubeconfig() == tmp_path / "config"


def test_a_kubeconfig_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/no/such/file")
    with pytest.raises(ClusterError, match="unset KUBECONFIG"):
        foreign_kubeconfig()
