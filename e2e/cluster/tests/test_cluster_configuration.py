"""Configuration files, certificates and command lines of the cluster's daemons agree with each other."""

import base64
import json
from pathlib import Path

import pytest

from workslice_cluster import certificates, components, configuration_files, kubeconfig
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.cluster_objects import cluster_objects
from workslice_cluster.component import Component
from workslice_cluster.instance import Instance
from workslice_cluster.node import Node, first
from workslice_cluster.node_daemons import node_daemons

ONE = Instance(2, Path("/cache"), Path("/cache/cluster-2"))
BINARIES = {
    name: Path("/binaries") / name
    for name in (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kube-proxy",
        "kube-router",
        "etcd",
        "coredns",
    )
}
SECOND = Node(ONE, 1, "second")
TABLE = {component.name: component for component in components.table(ONE, BINARIES)}
SECOND_TABLE = {component.name: component for component in node_daemons(SECOND, BINARIES)}
FILES = {**configuration_files.of_node(first(ONE)), **configuration_files.of_control_plane(ONE)}
SECOND_FILES = configuration_files.of_node(SECOND)


def test_a_kubeconfig_carries_its_certificates() -> None:
    document = json.loads(kubeconfig.render("https://10.90.2.1:6443", "admin", b"CA", b"CERT", b"KEY"))
    assert document["clusters"][0]["cluster"] == {
        "server": "https://10.90.2.1:6443",
        "certificate-authority-data": base64.b64encode(b"CA").decode(),
    }
    user = document["users"][0]["user"]
    assert base64.b64decode(user["client-certificate-data"]) == b"CERT"
    assert base64.b64decode(user["client-key-data"]) == b"KEY"
    context = next(one for one in document["contexts"] if one["name"] == document["current-context"])
    assert context["context"] == {"cluster": document["clusters"][0]["name"], "user": document["users"][0]["name"]}


def test_everyone_with_a_kubeconfig_has_a_certificate() -> None:
    assert set(kubeconfig.USERS) <= {one.name for one in certificates.table(ONE)}


@pytest.mark.parametrize(
    ("node", "table", "files"),
    [(first(ONE), TABLE, FILES), (SECOND, SECOND_TABLE, SECOND_FILES)],
    ids=["first", "added"],
)
def test_every_configuration_file_a_command_line_names_is_rendered(
    node: Node, table: dict[str, Component], files: dict[str, str]
) -> None:
    named = {
        word.partition("=")[2] or word
        for component in table.values()
        for word in component.argv
        if "/configuration/" in word
    }
    known = {str(node.configuration / name) for name in files}
    users = (*kubeconfig.USERS, node.own("kubelet"))
    assert named <= known | {str(kubeconfig.path_of(ONE, user)) for user in users}


def test_the_api_server_is_certified_for_the_addresses_it_is_called_by() -> None:
    names = next(one.names for one in certificates.table(ONE) if one.name == "kube-apiserver")
    assert {"IP:10.90.2.1", "IP:10.98.0.1", "IP:127.0.0.1", "DNS:kubernetes.default.svc"} <= set(names)


def test_the_kubelet_is_a_node_to_the_node_authorizer() -> None:
    certificate = next(one for one in certificates.table(ONE) if one.name == "kubelet")
    assert certificate.subject == "/O=system:nodes/CN=system:node:workslice-2-node"
    assert set(certificate.usages) == {"clientAuth", "serverAuth"}


def test_an_added_node_has_a_certificate_of_its_own() -> None:
    certificate = certificates.of_kubelet(SECOND)
    assert certificate.subject == "/O=system:nodes/CN=system:node:second"
    assert "IP:10.90.2.2" in certificate.names
    assert json.loads(SECOND_FILES["kubelet.json"])["tlsCertFile"] == str(ONE.pki / f"{certificate.name}.crt")


def test_the_name_service_is_where_pods_look_for_it() -> None:
    service, endpoints, *_ = cluster_objects(ONE)["items"]
    assert json.loads(FILES["kubelet.json"])["clusterDNS"] == [service["spec"]["clusterIP"]]
    assert endpoints["endpoints"][0]["addresses"] == [ONE.node_address]
    assert f"bind {ONE.node_address}" in FILES["Corefile"]


def test_the_kubelet_keeps_to_the_clusters_own_control_group() -> None:
    assert json.loads(FILES["kubelet.json"])["cgroupRoot"] == f"/{ONE.cgroup}"


def test_the_control_groups_of_an_added_node_are_below_the_clusters() -> None:
    assert json.loads(SECOND_FILES["kubelet.json"])["cgroupRoot"] == f"/{ONE.cgroup}/second"


def test_no_two_nodes_share_a_configuration_file() -> None:
    assert [name for name in SECOND_FILES if SECOND_FILES[name] == FILES[name]] == ["resolv.conf"]


def test_pods_keep_their_address_on_the_way_to_other_nodes() -> None:
    bridge = json.loads(SECOND_FILES["cni/10-workslice.conflist"])["plugins"][0]
    assert bridge["ipMasq"] is False
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.82.1.0/24"}]]


def test_an_unknown_component_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ClusterError, match="no component 'etc'; the components are etcd, kube-apiserver"):
        components.find(ONE, BINARIES, "etc")


def test_all_parts_agree_on_the_service_network() -> None:
    option = f"--service-cluster-ip-range={ONE.service_network}"
    assert option in TABLE["kube-apiserver"].argv
    assert option in TABLE["kube-controller-manager"].argv
    assert option in TABLE["kube-router"].argv


@pytest.mark.parametrize("component", [*TABLE.values(), *SECOND_TABLE.values()], ids=lambda one: one.name)
def test_a_health_address_is_reachable_from_the_host(component: Component) -> None:
    assert component.health is None or f"//{component.node.address}:" in component.health


def test_what_kube_router_reads_it_may_read() -> None:
    roles = {one["metadata"]["name"]: one for one in cluster_objects(ONE)["items"] if one["kind"] == "ClusterRole"}
    listed = {
        name for rule in roles["system:kube-router"]["rules"] if "list" in rule["verbs"] for name in rule["resources"]
    }
    assert listed == {"services", "endpoints", "endpointslices", "pods", "nodes", "namespaces", "networkpolicies"}
