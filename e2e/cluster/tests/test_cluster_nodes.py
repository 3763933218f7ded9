"""Nodes of one cluster must not meet, and are found again by what is in the state folder."""

import ipaddress
from itertools import combinations
from pathlib import Path

import pytest

from workslice_cluster import inventory
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.instance import MOST_INSTANCES, Instance
from workslice_cluster.node import MOST_ADDED, Node, added, find_added, first, forget, next_node


@pytest.fixture
def cluster(tmp_path: Path) -> Instance:
    return Instance(3, tmp_path, tmp_path / "state")


def make(cluster: Instance, name: str) -> Node:
    node = next_node(cluster, name)
    node.folder.mkdir(parents=True)
    inventory.path_of(node.folder).write_text(inventory.to_json(inventory.DEFAULT))
    return node


@pytest.mark.parametrize("number", range(MOST_INSTANCES))
def test_nodes_share_the_clusters_networks_without_overlap(number: int) -> None:
    cluster = Instance(number, Path("/cache"), Path("/cache/state"))
    nodes = [first(cluster), *(Node(cluster, index, f"n{index}") for index in range(1, MOST_ADDED + 1))]
    for one in nodes:
        assert ipaddress.ip_network(one.pod_network).subnet_of(ipaddress.IPv4Network(cluster.pod_network))
        assert ipaddress.ip_address(one.address) in ipaddress.ip_network(cluster.node_network)
    assert not any(
        ipaddress.IPv4Network(a.pod_network).overlaps(ipaddress.IPv4Network(b.pod_network))
        for a, b in combinations(nodes, 2)
    )
    for name in ("address", "port", "cgroup", "folder"):
        assert len({getattr(one, name) for one in nodes}) == len(nodes)
    assert len({one.own("kubelet") for one in nodes}) == len(nodes)


def test_the_first_node_is_where_the_api_server_is(cluster: Instance) -> None:
    assert first(cluster).address == cluster.node_address
    assert first(cluster).folder == cluster.state


def test_an_added_node_is_found_again_with_its_place(cluster: Instance) -> None:
    one, two = make(cluster, "a-b"), make(cluster, "2")
    assert added(cluster) == (one, two)
    assert (find_added(cluster, "2"), next_node(cluster, "a-b")) == (two, one)


def test_a_folder_that_an_interrupted_command_began_is_no_node(cluster: Instance) -> None:
    next_node(cluster, "one").folder.mkdir(parents=True)
    assert added(cluster) == ()


def test_the_place_of_a_removed_node_is_used_again(cluster: Instance) -> None:
    one, two = make(cluster, "one"), make(cluster, "two")
    forget(one)
    assert added(cluster) == (two,)
    assert next_node(cluster, "three").index == one.index


def test_no_more_nodes_than_there_are_places(cluster: Instance) -> None:
    for index in range(MOST_ADDED):
        make(cluster, f"n{index}")
    with pytest.raises(ClusterError, match="8 added nodes already: remove one first"):
        next_node(cluster, "one-more")


@pytest.mark.parametrize("name", ["", "UPPER", "a_b", "a/b", "-a", "a-", "a" * 41, "workslice-3-node"])
def test_a_name_that_cannot_be_is_refused(cluster: Instance, name: str) -> None:
    with pytest.raises(ClusterError, match="cannot name an added node"):
        next_node(cluster, name)


def test_an_unknown_node_is_refused_with_the_known_ones(cluster: Instance) -> None:
    with pytest.raises(ClusterError, match="no added node x; `node add` makes one"):
        find_added(cluster, "x")
    make(cluster, "one")
    with pytest.raises(ClusterError, match="no added node x; there are: one"):
        find_added(cluster, "x")


def test_the_first_node_cannot_be_cut_off(cluster: Instance) -> None:
    with pytest.raises(ClusterError, match="carries the control plane"):
        find_added(cluster, "workslice-3-node")
