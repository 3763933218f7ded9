"""`up` on a cluster that lost a daemon starts just that one, and the fake device plugin follows a restarted kubelet."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from second_cluster import SecondCluster

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondCluster]:
    one = SecondCluster(tmp_path_factory.mktemp("second") / "cluster")
    one.run("up")
    yield one
    one.run("down")


def pids(status: str) -> dict[str, int]:
    """Component name to PID of all that are well."""
    return {name: int(pid) for name, pid in re.findall(r"^(\S+) +well \(PID (\d+)\)$", status, re.MULTILINE)}


def wait_for_status(cluster: SecondCluster, text: str, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while text not in (status := cluster.run("status")):
        assert time.monotonic() < deadline, f"the status never said {text!r}:\n{status}"
        time.sleep(0.5)


@pytest.mark.parametrize("victim", ["etcd", "kube-apiserver", "kubelet", "device-plugin", "containerd", "coredns"])
def test_a_killed_daemon_is_reported_and_started_again_alone(cluster: SecondCluster, victim: str) -> None:
    before = pids(cluster.run("status"))
    os.kill(before[victim], signal.SIGKILL)

    with cluster.start("status") as process:
        report, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.search(rf"^{victim} +dead: `up` starts it again", report, re.MULTILINE), report

    cluster.run("up")
    after = pids(cluster.run("status"))
    assert after.keys() == before.keys()
    assert {name for name in before if before[name] != after[name]} == {victim}


def test_the_device_plugin_serves_a_restarted_kubelet(cluster: SecondCluster) -> None:
    os.kill(pids(cluster.run("status"))["kubelet"], signal.SIGKILL)
    cluster.run("up")
    cluster.run("health", "MIG-1g.10gb-1", "Unhealthy")
    wait_for_status(cluster, "nvidia.com/mig-1g.10gb         2 healthy of 3")
    cluster.run("health", "MIG-1g.10gb-1", "Healthy")
    wait_for_status(cluster, "nvidia.com/mig-1g.10gb         3 healthy of 3")


def test_another_inventory_needs_a_fresh_cluster(cluster: SecondCluster, tmp_path: Path) -> None:
    file = tmp_path / "inventory.json"
    file.write_text('{"product": "NVIDIA-A30", "gpus": 1, "memory_mebibytes": 24576, "slices": []}')
    with cluster.start("up", "--inventory", str(file)) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the cluster runs with another inventory: run `down` first" in output
