"""Configuration files, certificates and command lines of the cluster's daemons agree with each other."""

import base64
import json
from pathlib import Path

import pytest

from workslice_cluster import certificates, components, configuration_files, kubeconfig
from workslice_cluster.cluster_objects import cluster_objects
from workslice_cluster.instance import Instance

ONE = Instance(2, Path("/cache"), Path("/cache/cluster-2"))
BINARIES = {
    name: Path("/binaries") / name
    for name in (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kube-proxy",
        "etcd",
        "coredns",
    )
}
TABLE = {component.name: component for component in components.table(ONE, BINARIES)}
FILES = configuration_files.render(ONE)


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


def test_every_daemon_with_a_kubeconfig_has_a_certificate() -> None:
    assert set(kubeconfig.DAEMONS) | {"admin"} <= {one.name for one in certificates.table(ONE)}


def test_every_configuration_file_a_command_line_names_is_rendered() -> None:
    named = {
        word.partition("=")[2] or word
        for component in TABLE.values()
        for word in component.argv
        if str(ONE.configuration) in word
    }
    known = {str(ONE.configuration / name) for name in FILES} | {
        str(kubeconfig.path_of(ONE, daemon)) for daemon in kubeconfig.DAEMONS
    }
    assert named <= known


def test_the_api_server_is_certified_for_the_addresses_it_is_called_by() -> None:
    names = next(one.names for one in certificates.table(ONE) if one.name == "kube-apiserver")
    assert {"IP:10.90.2.1", "IP:10.98.0.1", "IP:127.0.0.1", "DNS:kubernetes.default.svc"} <= set(names)


def test_the_kubelet_is_a_node_to_the_node_authorizer() -> None:
    certificate = next(one for one in certificates.table(ONE) if one.name == "kubelet")
    assert certificate.subject == "/O=system:nodes/CN=system:node:workslice-2-node"
    assert set(certificate.usages) == {"clientAuth", "serverAuth"}


def test_the_name_service_is_where_pods_look_for_it() -> None:
    service, endpoints, *_ = cluster_objects(ONE)["items"]
    assert json.loads(FILES["kubelet.json"])["clusterDNS"] == [service["spec"]["clusterIP"]]
    assert endpoints["endpoints"][0]["addresses"] == [ONE.node_address]
    assert f"bind {ONE.node_address}" in FILES["Corefile"]


def test_the_kubelet_keeps_to_the_clusters_own_control_group() -> None:
    assert json.loads(FILES["kubelet.json"])["cgroupRoot"] == f"/{ONE.cgroup}"


def test_all_parts_agree_on_the_service_network() -> None:
    option = f"--service-cluster-ip-range={ONE.service_network}"
    assert option in TABLE["kube-apiserver"].argv
    assert option in TABLE["kube-controller-manager"].argv


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_health_address_is_reachable_from_the_host(name: str) -> None:
    health = TABLE[name].health
    assert health is None or f"//{ONE.node_address}:" in health
