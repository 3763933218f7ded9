"""dist/install.yaml holds what the chart holds, in an order that `kubectl apply` can follow."""

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendered_chart import NAMESPACE, render

sys.path.insert(0, str(Path(__file__).parents[2]))

from demo import install_manifests

from workslice_cluster.cluster_error import ClusterError


def objects(*words: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(install_manifests.install_manifests(*words)))


def by_name(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda one: (one["kind"], one["metadata"]["name"]))


def test_they_are_the_chart_and_the_namespace() -> None:
    first, *others = objects()
    assert (first["kind"], first["metadata"]["name"]) == ("Namespace", NAMESPACE)
    assert first["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert by_name(others) == render({})


def test_values_are_those_of_the_chart() -> None:
    assert by_name(objects("--set=router.replicas=3")[1:]) == render({"router": {"replicas": 3}})


def test_what_others_need_comes_before_them() -> None:
    kinds = [one["kind"] for one in objects("--set=router.replicas=2")]
    assert kinds[0] == "Namespace"
    assert kinds[1:3] == ["CustomResourceDefinition"] * 2
    last_account = max(i for i, kind in enumerate(kinds) if kind == "ServiceAccount")
    assert kinds.index("Deployment") > last_account
    assert kinds.index("Deployment") > kinds.index("RoleBinding")


def test_everything_but_the_cluster_wide_names_its_namespace() -> None:
    everywhere = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
    for one in objects():
        assert (one["kind"] in everywhere) != (one["metadata"].get("namespace") == NAMESPACE), one["metadata"]


def test_two_runs_write_the_same_file(tmp_path: Path) -> None:
    for name in ("one.yaml", "two.yaml"):
        install_manifests.main([str(tmp_path / "dist" / name)])
    assert (tmp_path / "dist" / "one.yaml").read_bytes() == (tmp_path / "dist" / "two.yaml").read_bytes()


def test_a_misspelt_value_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="replcias"):
        install_manifests.main([str(tmp_path / "install.yaml"), "--set=router.replcias=2"])
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_file_name_is_said() -> None:
    with pytest.raises(ClusterError, match=r"usage: .* FILE"):
        install_manifests.main(["--set=router.replicas=2"])
