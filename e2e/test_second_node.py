"""A second node of the embedded cluster is a real one: network, policies, slices; its link can be cut and healed."""

import os
import re
import signal
from collections.abc import Iterator

import pytest
from demo.cluster_client import Cluster, connect
from demo.waiting import NotYet, wait_until

import manifests
from probe_pods import LISTENING_PORT, address, call, caller, listener, wait_for_call
from second_cluster import NODE, SecondCluster
from workslice_cluster import images

pytestmark = pytest.mark.e2e

NODES = {"first": NODE, "second": "second"}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "on-second", "namespace": "servers"},
    "spec": {"selector": {"on": "second"}, "ports": [{"port": 80, "targetPort": LISTENING_PORT}]},
}
FRIENDS_ONLY = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "friends", "namespace": "servers"},
    "spec": {
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"is": "friend"}}}],
                "ports": [{"port": LISTENING_PORT}],
            }
        ],
    },
}


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondCluster]:
    """A cluster of two nodes."""
    one = SecondCluster(tmp_path_factory.mktemp("two-nodes") / "cluster")
    one.run("up")
    one.run("node", "add", "second")
    yield one
    one.run("down")


@pytest.fixture(scope="module")
def image(tool: SecondCluster) -> str:
    """An image with Python that both nodes have."""
    archive, reference = images.ensure("router")
    tool.run("load", str(archive))
    return reference


@pytest.fixture(scope="module")
def cluster(tool: SecondCluster, image: str) -> Cluster:
    """The cluster with a server, a friend and a stranger on each node."""
    found = connect(tool.state / "admin.kubeconfig")
    found.apply([manifests.namespace(name) for name in ("servers", "callers")])
    pods = [SERVICE]
    for short, node in NODES.items():
        pods.append(listener(f"server-{short}", "servers", image, labels={"on": short}, node=node))
        for kind in ("friend", "stranger"):
            pods.append(caller(f"{kind}-{short}", "callers", image, labels={"is": kind}, node=node))
    found.apply(pods)
    for namespace in ("servers", "callers"):
        found.kubectl("wait", "--for=condition=Ready", "pod", "--all", "-n", namespace, "--timeout=50s")
    return found


@pytest.fixture
def friends_only(cluster: Cluster) -> Iterator[Cluster]:
    cluster.apply([FRIENDS_ONLY])
    yield cluster
    cluster.kubectl("delete", "networkpolicy", "friends", "-n", "servers")


def test_its_slices_count(tool: SecondCluster) -> None:
    assert tool.run("status").count("nvidia.com/mig-1g.10gb         3 healthy of 3") == 2


@pytest.mark.parametrize("caller_on", NODES)
@pytest.mark.parametrize("server_on", NODES)
def test_pods_reach_each_other(cluster: Cluster, caller_on: str, server_on: str) -> None:
    host = address(cluster, "servers", f"server-{server_on}")
    assert call(cluster, "callers", f"stranger-{caller_on}", host, LISTENING_PORT) == "open"


@pytest.mark.parametrize("caller_on", NODES)
def test_pods_reach_a_service_by_its_name(cluster: Cluster, caller_on: str) -> None:
    assert call(cluster, "callers", f"stranger-{caller_on}", "on-second.servers.svc.cluster.local", 80) == "open"


@pytest.mark.parametrize("server_on", NODES)
def test_a_network_policy_holds_within_and_between_nodes(friends_only: Cluster, server_on: str) -> None:
    host = address(friends_only, "servers", f"server-{server_on}")
    for caller_on in NODES:
        wait_for_call(friends_only, "callers", f"stranger-{caller_on}", host, LISTENING_PORT, "closed")
        assert call(friends_only, "callers", f"friend-{caller_on}", host, LISTENING_PORT) == "open"
    service = "on-second.servers.svc.cluster.local"
    assert call(friends_only, "callers", "friend-first", service, 80) == "open"
    assert call(friends_only, "callers", "stranger-first", service, 80).startswith("closed")


@pytest.mark.parametrize("node", NODES)
def test_the_kubelet_probes_a_pod_that_a_policy_closes(friends_only: Cluster, image: str, node: str) -> None:
    friends_only.apply([listener(f"late-{node}", "servers", image, node=NODES[node])])
    host = address(friends_only, "servers", f"late-{node}")
    wait_for_call(friends_only, "callers", "stranger-first", host, LISTENING_PORT, "closed")


def test_a_cut_link_silences_the_node_until_it_is_healed(tool: SecondCluster, cluster: Cluster) -> None:
    host = address(cluster, "servers", "server-second")
    tool.run("node", "cut", "second")
    assert call(cluster, "callers", "friend-first", host, LISTENING_PORT).startswith("closed")
    with tool.start("status") as process:
        assert "its link is cut" in process.communicate(timeout=60)[0]

    tool.run("node", "heal", "second")

    wait_for_call(cluster, "callers", "friend-first", host, LISTENING_PORT, "open")


def test_up_mends_a_killed_daemon_of_the_node_alone(tool: SecondCluster) -> None:
    def pids() -> dict[str, str]:
        with tool.start("status") as process:
            report, _ = process.communicate(timeout=60)
        found = dict(re.findall(r"^(\S+) +well \(PID (\d+)\)$", report, re.MULTILINE))
        if process.returncode != 0:
            raise NotYet(report)
        return found

    before = wait_until("the cluster to be well", pids, seconds=60)
    os.kill(int(before["kubelet@second"]), signal.SIGKILL)
    tool.run("up")
    after = wait_until("the cluster to be well again", pids, seconds=60)
    assert {name for name in before if before[name] != after.get(name)} == {"kubelet@second"}
