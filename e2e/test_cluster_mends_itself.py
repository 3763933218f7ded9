"""`up` on a cluster that lost a daemon starts just that one, and the fake device plugin follows a restarted kubelet."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo.waiting import NotYet, wait_until

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


def status(cluster: SecondCluster) -> tuple[int, str]:
    """The exit status of `status`, which is 0 when all is well, and what it prints."""
    with cluster.start("status") as process:
        report, _ = process.communicate(timeout=60)
    return process.returncode, report


def status_of_ill(cluster: SecondCluster) -> str:
    code, report = status(cluster)
    assert code == 1, report
    return report


def wait_until_well(cluster: SecondCluster) -> str:
    def well() -> str:
        code, report = status(cluster)
        if code != 0:
            raise NotYet(report)
        return report

    return wait_until("all to be well", well, seconds=30, every=0.5)


def wait_for_status(cluster: SecondCluster, text: str) -> None:
    def said() -> None:
        if text not in (report := status(cluster)[1]):
            raise NotYet(report)

    wait_until(f"the status to say {text!r}", said, seconds=15, every=0.5)


@pytest.mark.parametrize("victim", ["etcd", "kube-apiserver", "kubelet", "device-plugin", "containerd", "kube-router"])
def test_a_killed_daemon_is_reported_and_started_again_alone(cluster: SecondCluster, victim: str) -> None:
    before = pids(cluster.run("status"))
    os.kill(before[victim], signal.SIGKILL)

    report = status_of_ill(cluster)
    assert re.search(rf"^{victim} +dead: `up` starts it again", report, re.MULTILINE), report

    cluster.run("up")
    after = pids(cluster.run("status"))
    assert after.keys() == before.keys()
    assert {name for name in before if before[name] != after[name]} == {victim}


@pytest.mark.parametrize("victim", ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"])
def test_a_component_can_be_stopped_for_as_long_as_one_wants_and_started_again_alone(
    cluster: SecondCluster, victim: str
) -> None:
    before = pids(cluster.run("status"))
    cluster.run("stop", victim)
    assert victim not in pids(status_of_ill(cluster))
    cluster.run("stop", victim)  # it is stopped already

    cluster.run("start", victim)

    after = pids(wait_until_well(cluster))
    assert {name for name in before if before[name] != after.get(name)} == {victim}


def test_an_unknown_component_is_not_stopped_but_the_known_ones_named(cluster: SecondCluster) -> None:
    with cluster.start("stop", "etc") as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "there is no component 'etc'; the components are etcd, kube-apiserver" in output


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
