"""A control plane without nodes, for tests whose nodes are objects and nothing else."""

from pathlib import Path

from workslice_cluster.control_plane import control_plane_daemons
from workslice_cluster.instance import Instance

ONE = Instance(6, Path("/cache"), Path("/cache/cluster-6"))
BINARIES = {
    name: Path("/binaries") / name
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns")
}


def test_nodes_without_kubelets_are_not_lost_for_want_of_heartbeats() -> None:
    def controllers(kubelets: bool) -> list[str]:
        (manager,) = [one for one in control_plane_daemons(ONE, BINARIES, kubelets) if "controller" in one.kind]
        return [flag for flag in manager.argv if flag.startswith("--controllers")]

    assert controllers(kubelets=False) == ["--controllers=*,-node-lifecycle-controller"]
    assert controllers(kubelets=True) == []


def test_store_api_and_controllers_come_first() -> None:
    kinds = [one.kind for one in control_plane_daemons(ONE, BINARIES)]
    assert kinds[:3] == ["etcd", "kube-apiserver", "kube-controller-manager"]
