"""The fake device plugin as a DaemonSet, as on clusters of others: a cluster without GPUs gets slices that pods can use."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo.cluster_client import Cluster, connect
from demo.waiting import NotYet, wait_until

import manifests
from probe_pods import address, caller
from second_cluster import NODE, SecondCluster
from workslice_cluster import images, inventory
from workslice_cluster.cluster_error import ClusterError

pytestmark = pytest.mark.e2e

NO_GPUS = {"product": "NONE", "gpus": 0, "memory_mebibytes": 0, "slices": []}


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondCluster]:
    """A cluster whose node has no GPUs."""
    folder = tmp_path_factory.mktemp("without-gpus")
    (folder / "inventory.json").write_text(json.dumps(NO_GPUS))
    one = SecondCluster(folder / "cluster")
    one.run("up", "--inventory", str(folder / "inventory.json"))
    yield one
    one.run("down")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pods get mounted as the engine's packages."""
    folder = tmp_path_factory.mktemp("engine")
    (folder / "packages").write_text("the engine\n")
    for part in (folder, folder.parent):
        part.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def cluster(tool: SecondCluster, engine: Path) -> Cluster:
    """The cluster after fake GPUs were installed on it by its kubeconfig alone."""
    archive, reference = images.ensure("device-plugin")
    tool.run("load", str(archive), str(images.ensure("router")[0]))
    kubeconfig = tool.state / "admin.kubeconfig"
    command = [sys.executable, "-m", "workslice_cluster.fake_gpus", reference, "--engine", str(engine)]
    done = subprocess.run(
        command, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return connect(kubeconfig)


def wait_for_slices(cluster: Cluster) -> None:
    wanted = {part.resource: str(part.count) for part in inventory.DEFAULT.slices}

    def look() -> None:
        offered = cluster.get("node", NODE)["status"]["allocatable"]
        if {name: offered.get(name) for name in wanted} != wanted:
            raise NotYet(str(offered))

    wait_until("the node to offer the slices", look, seconds=30, every=0.5)


def test_the_node_offers_the_slices_and_says_so_in_its_labels(cluster: Cluster) -> None:
    wait_for_slices(cluster)
    labels = cluster.get("node", NODE)["metadata"]["labels"]
    assert labels["nvidia.com/mig-1g.10gb.count"] == "3"
    assert labels["nvidia.com/gpu.product"] == inventory.DEFAULT.product


def test_a_pod_with_a_slice_gets_its_device_and_the_engine(cluster: Cluster) -> None:
    wait_for_slices(cluster)
    pod = caller("user", "users", images.ensure("router")[1])
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-3g.40gb": "1"}}
    cluster.apply([manifests.namespace("users"), pod])
    address(cluster, "users", "user")
    look = "import os; print(os.environ['NVIDIA_VISIBLE_DEVICES'], open('/opt/vllm/packages').read())"
    said = cluster.kubectl("exec", "user", "-n", "users", "--", "python3", "-c", look)
    assert said.split() == ["MIG-3g.40gb-0", "the", "engine"]


def registrations(cluster: Cluster) -> int:
    """How often the running plugin has registered the smallest slice."""
    log = cluster.kubectl("logs", "daemonset/fake-device-plugin", "-n", "fake-gpus")
    return log.count("registered nvidia.com/mig-1g.10gb ")


def test_a_restarted_kubelet_has_the_slices_again(tool: SecondCluster, cluster: Cluster) -> None:
    wait_for_slices(cluster)
    before = registrations(cluster)
    tool.run("stop", "kubelet")
    tool.run("start", "kubelet")

    def look() -> None:
        try:
            seen = registrations(cluster)
        except ClusterError as error:  # a kubelet that has just started does not give logs yet
            raise NotYet(str(error)) from error
        if seen <= before:
            raise NotYet(f"{seen} registrations")

    wait_until("the plugin to register with the new kubelet", look, seconds=30, every=0.5)
    wait_for_slices(cluster)


def test_a_restarted_plugin_registers_again(cluster: Cluster) -> None:
    cluster.kubectl("rollout", "restart", "daemonset/fake-device-plugin", "-n", "fake-gpus")
    cluster.kubectl("rollout", "status", "daemonset/fake-device-plugin", "-n", "fake-gpus", "--timeout=50s")
    wait_for_slices(cluster)
    assert registrations(cluster) == 1
