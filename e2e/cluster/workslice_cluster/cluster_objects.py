"""Kubernetes objects that belong to the cluster itself: the name service, and what daemons on the nodes may read."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from workslice_cluster.instance import Instance


class ServedPort(NamedTuple):
    """A port of a Service."""

    name: str
    port: int
    target: int
    protocol: str = "TCP"


def cluster_objects(instance: Instance) -> dict[str, Any]:
    """Return one List for `kubectl apply`."""
    dns = [ServedPort("dns", 53, 53, "UDP"), ServedPort("dns-tcp", 53, 53)]
    service = served_by_the_node(instance, "kube-dns", dns, clusterIP=instance.dns_service_address)
    watch = ["list", "watch"]
    names = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces", "endpoints"], "verbs": watch},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch},
    ]
    policies = [
        *names,
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", *watch]},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": watch},
    ]
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [*service, *rights("system:coredns", names), *rights("system:kube-router", policies)],
    }


def served_by_the_node(
    instance: Instance, name: str, ports: Sequence[ServedPort], **spec: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a Service in kube-system and its endpoints, hand-made, since what serves is a daemon of the first node."""
    metadata = {"name": name, "namespace": "kube-system"}
    offered = [{"name": p.name, "port": p.port, "targetPort": p.target, "protocol": p.protocol} for p in ports]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"ports": offered, **spec},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {**metadata, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "ports": [{"name": p.name, "port": p.target, "protocol": p.protocol} for p in ports],
        "endpoints": [{"addresses": [instance.node_address], "conditions": {"ready": True}}],
    }
    return service, endpoints


def rights(user: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a role with these rules and the binding that gives it to the user of the same name."""
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        },
    ]
