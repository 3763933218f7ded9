"""Clusters side by side must not meet."""

import ipaddress
from itertools import combinations
from pathlib import Path

import pytest

from workslice_cluster import instance
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.instance import MOST_INSTANCES, Instance
from workslice_cluster.node import first

ALL = [Instance(number, Path("/cache"), Path(f"/cache/cluster-{number}")) for number in range(MOST_INSTANCES)]


def networks(one: Instance) -> list[ipaddress.IPv4Network]:
    link = f"{one.link_host_address}/30"
    return [ipaddress.IPv4Network(text, strict=False) for text in (*one.host_networks, link)]


def test_no_two_instances_share_an_address() -> None:
    for one, other in combinations(ALL, 2):
        assert not any(a.overlaps(b) for a in networks(one) for b in networks(other))


def test_no_two_instances_share_a_name() -> None:
    for name in ("node_name", "link", "cgroup", "kubeconfig", "lock"):
        assert len({getattr(one, name) for one in ALL}) == MOST_INSTANCES


@pytest.mark.parametrize("one", ALL)
def test_the_networks_of_one_instance_are_apart_and_hold_its_addresses(one: Instance) -> None:
    assert not any(a.overlaps(b) for a, b in combinations(networks(one), 2))
    assert ipaddress.ip_address(one.node_address) in ipaddress.ip_network(one.node_network)
    assert ipaddress.ip_address(one.dns_service_address) in ipaddress.ip_network(one.service_network)
    assert ipaddress.ip_network(first(one).pod_network).subnet_of(ipaddress.ip_network(one.pod_network))


@pytest.mark.parametrize("one", ALL)
def test_an_interface_name_fits_the_kernel(one: Instance) -> None:
    assert len(one.link) <= 15


@pytest.mark.parametrize("text", ["8", "-1", "x", "1.5"])
def test_an_impossible_instance_number_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKSLICE_CLUSTER_INSTANCE", text)
    with pytest.raises(ClusterError, match="from 0 to 7"):
        instance.from_environment()


def test_the_state_folder_is_in_the_cache_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKSLICE_CACHE", "/somewhere")
    monkeypatch.setenv("WORKSLICE_CLUSTER_INSTANCE", "3")
    monkeypatch.delenv("WORKSLICE_CLUSTER_STATE", raising=False)
    assert instance.from_environment().state == Path("/somewhere/cluster-3")
    monkeypatch.setenv("WORKSLICE_CLUSTER_STATE", "/named")
    assert instance.from_environment().state == Path("/named")
