"""Kubernetes objects that belong to the cluster itself: the name service, and what daemons on the nodes may read."""

from typing import Any

from workslice_cluster.instance import Instance


def cluster_objects(instance: Instance) -> dict[str, Any]:
    """Return one List for `kubectl apply`. CoreDNS runs on the node, so its Service has hand-made endpoints."""
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": instance.dns_service_address, "ports": ports},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns"},
        },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": [{"addresses": [instance.node_address], "conditions": {"ready": True}}],
    }
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
    rights = [*_rights("system:coredns", names), *_rights("system:kube-router", policies)]
    return {"apiVersion": "v1", "kind": "List", "items": [service, endpoints, *rights]}


def _rights(user: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
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
