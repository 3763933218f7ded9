"""`down` leaves no process, mount, interface, route or control group, however `up` ended.

It starts a second cluster beside the shared one; instance number, addresses and folders keep the two apart.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from second_cluster import GROUP, INSTANCE, LINK, NODE, SecondCluster, process_folders, read, read_link, started_at
from workslice_cluster.control_groups import existing, hierarchies

# Links, routes and control groups of other clusters, the shared one among them, come and go; so do mounts of images that are built.
OF_OTHERS = re.compile(rf"\bworkslice-?(?!{INSTANCE}\b)\d\b|/buildah/")

pytestmark = pytest.mark.e2e

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "sleeper"},
    "spec": {
        "containers": [
            {
                "name": "pause",
                "image": "registry.k8s.io/pause:3.10",
                "resources": {"limits": {"memory": "32Mi"}},
                "volumeMounts": [{"name": "memory", "mountPath": "/memory"}],
            }
        ],
        "volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}],
    },
}


def host_snapshot() -> dict[str, set[str]]:
    """What the host has of interfaces, routes, mounts and control groups, but of those that others make and remove within their own."""

    def ip(*words: str) -> list[dict[str, str]]:
        listed = subprocess.run(["ip", "-json", *words], capture_output=True, text=True, check=True).stdout
        return list(json.loads(listed))

    mountinfo = Path("/proc/self/mountinfo").read_text()
    version_1, version_2 = hierarchies(mountinfo)
    tops = [path for root in (*version_1, *version_2) for path in root.iterdir() if path.is_dir()]
    mounts = mountinfo.splitlines()
    found = {
        "interfaces": {link["ifname"] for link in ip("link")},
        "routes": {f"{route['dst']} {route.get('gateway')} {route.get('dev')}" for route in ip("-4", "route")},
        "mounts": {line.split(" ")[4] for line in mounts},
        "control groups": {str(path) for path in (*tops, *existing(GROUP))},
    }
    return {what: {name for name in names if not OF_OTHERS.search(name)} for what, names in found.items()}


def processes_left(cluster: SecondCluster) -> list[str]:
    """Processes that live in a namespace of the cluster, carry its state folder, or see one of its mounts."""
    left = []
    for pid, folder in process_folders():
        if pid == os.getpid() or not (command := read(folder / "cmdline")):
            continue
        inside = cluster.namespaces & {read_link(folder / "ns" / kind) for kind in ("net", "mnt", "pid")}
        # The kernel gives the number of a namespace that is gone to a new one, such as a pod's of the shared cluster.
        inside = inside if started_at(folder) < cluster.remembered_at else set()
        if inside or str(cluster.state) in read(folder / "environ") + command + read(folder / "mountinfo"):
            left.append(f"{pid} {command}")
    return left


def assert_nothing_is_left(cluster: SecondCluster, before: dict[str, set[str]]) -> None:
    assert processes_left(cluster) == []
    after = host_snapshot()
    assert {what: after[what] - before[what] for what in before} == {what: set() for what in before}
    assert {entry.name for entry in cluster.state.iterdir()} <= {"log"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SecondCluster]:
    one = SecondCluster(tmp_path / "cluster")
    yield one
    one.run("down")


def test_a_cluster_with_a_running_pod_is_gone_after_down(cluster: SecondCluster) -> None:
    before = host_snapshot()
    cluster.run("up")
    cluster.run("kubectl", "apply", "-f", "-", stdin=json.dumps(POD))
    cluster.run("kubectl", "wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
    during = host_snapshot()
    assert LINK in during["interfaces"]
    assert len(during["routes"] - before["routes"]) == 4
    assert any("kubepods" in group for group in during["control groups"] - before["control groups"])
    assert cluster.remember_namespaces() == 1
    assert any("pause" in process for process in processes_left(cluster))

    cluster.run("down")

    assert_nothing_is_left(cluster, before)


def test_another_cluster_of_the_same_number_is_left_alone(cluster: SecondCluster, tmp_path: Path) -> None:
    cluster.run("up")
    for command in ("up", "down"):
        with SecondCluster(tmp_path / "other").start(command) as process:
            output, _ = process.communicate(timeout=60)
        assert process.returncode == 1
        assert f"is the number of the cluster in {cluster.state}, which runs" in output
        cluster.run("status")


def test_a_cluster_with_a_second_node_is_gone_after_down(cluster: SecondCluster) -> None:
    before = host_snapshot()
    cluster.run("up")
    cluster.run("node", "add", "second")
    cluster.run("kubectl", "apply", "-f", "-", stdin=json.dumps(on_node(POD, "second")))
    cluster.run("kubectl", "wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
    during = host_snapshot()
    assert any("/second/kubepods" in group for group in during["control groups"])
    assert cluster.remember_namespaces() == 2

    cluster.run("down")

    assert_nothing_is_left(cluster, before)


def test_a_removed_node_is_gone_with_its_pods(cluster: SecondCluster) -> None:
    cluster.run("up")
    before, running = host_snapshot(), processes_left(cluster)
    cluster.run("node", "add", "second")
    cluster.run("kubectl", "apply", "-f", "-", stdin=json.dumps(on_node(POD, "second")))
    cluster.run("kubectl", "wait", "--for=condition=Ready", "pod/sleeper", "--timeout=60s")
    assert any("@second" in read(folder / "environ") for _, folder in process_folders())

    cluster.run("node", "remove", "second")

    assert cluster.run("kubectl", "get", "nodes", "-o", "name").split() == [f"node/{NODE}"]
    assert processes_left(cluster) == running
    after = host_snapshot()
    assert {what: after[what] - before[what] for what in before} == {what: set() for what in before}
    assert list((cluster.state / "nodes").iterdir()) == []


def test_a_node_whose_start_was_killed_is_cleaned_by_down(cluster: SecondCluster) -> None:
    before = host_snapshot()
    cluster.run("up")
    kill_at(cluster, "starting kubelet@second", "node", "add", "second")
    cluster.remember_namespaces()

    cluster.run("down")

    assert_nothing_is_left(cluster, before)


@pytest.mark.parametrize("line", ["namespaces, control groups", "starting etcd", "starting kubelet"])
def test_a_start_that_was_killed_is_cleaned_by_down(cluster: SecondCluster, line: str) -> None:
    before = host_snapshot()
    kill_at(cluster, line, "up")
    cluster.remember_namespaces()

    cluster.run("down")

    assert_nothing_is_left(cluster, before)


def test_after_a_killed_start_two_more_at_once_make_one_cluster(cluster: SecondCluster) -> None:
    before = host_snapshot()
    kill_at(cluster, "namespaces, control groups", "up")

    with cluster.start("up") as first, cluster.start("up") as second:
        outputs = first.communicate(timeout=300)[0], second.communicate(timeout=300)[0]

    assert (first.returncode, second.returncode) == (0, 0), outputs
    assert cluster.remember_namespaces() == 1
    assert "0 healthy" not in cluster.run("status")
    cluster.run("down")
    assert_nothing_is_left(cluster, before)


def test_down_without_a_cluster_is_no_error_and_says_that_there_is_none(cluster: SecondCluster) -> None:
    before = host_snapshot()
    cluster.run("down")
    assert "nothing to stop" in cluster.run("down")
    assert {what: host_snapshot()[what] - before[what] for what in before} == {what: set() for what in before}


def on_node(pod: dict[str, Any], node: str) -> dict[str, Any]:
    """The pod, bound to a node."""
    return pod | {"spec": pod["spec"] | {"nodeName": node}}


def kill_at(cluster: SecondCluster, line: str, *words: str) -> None:
    with cluster.start(*words) as process:
        assert process.stdout is not None
        said = []
        for text in process.stdout:
            said.append(text)
            if line in text:
                process.kill()
                return
        pytest.fail(f"`{' '.join(words)}` never said {line!r} but {said}")
