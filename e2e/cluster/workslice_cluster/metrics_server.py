"""metrics-server, for those who ask for it: what pods and nodes use, as `kubectl top` and a HorizontalPodAutoscaler read it."""

import base64
import json
from pathlib import Path
from typing import Any

from workslice_cluster import binaries, certificates, cluster_objects, daemons, kubeconfig, node_view
from workslice_cluster.certificates import Certificate
from workslice_cluster.component import Component
from workslice_cluster.instance import Instance
from workslice_cluster.node import first
from workslice_cluster.prepare import Parts

NAME = "metrics-server"
PORT = 4443
_NAMESPACE = "kube-system"
_API_SERVICE = "v1beta1.metrics.k8s.io"


def add(instance: Instance, init: int, parts: Parts) -> None:
    """Build it unless the cache has it, start it, and let the API server know; its first numbers come within half a minute.

    `init` holds the namespaces of the first node. Raises ClusterError when it does not start.
    """
    programs = binaries.ensure(instance.cache, [binaries.METRICS_SERVER])
    certificates.issue(instance, certificate())
    kubeconfig.write(instance, NAME)
    objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects_of(instance)})
    node_view.kubectl(instance, parts.kubectl, "apply", "--server-side", "-f", "-", stdin=objects)
    daemons.ensure(daemon(instance, programs[NAME]), init, parts)


def remove(instance: Instance, parts: Parts) -> None:
    """Take it away again: an API that nobody serves would hold up the deletion of every namespace."""
    node_view.kubectl(instance, parts.kubectl, "delete", "apiservice", _API_SERVICE, "--ignore-not-found")
    daemons.stop(daemon(instance, binaries.folder_of(instance.cache, binaries.METRICS_SERVER) / NAME))


def certificate() -> Certificate:
    """What it shows to kubelets and to those who ask it."""
    return Certificate(NAME, f"/CN=system:{NAME}", ("clientAuth", "serverAuth"), (f"DNS:{NAME}.{_NAMESPACE}.svc",))


def daemon(instance: Instance, binary: Path) -> Component:
    """How it runs, on the first node."""
    node, pki, access = first(instance), instance.pki, kubeconfig.path_of(instance, NAME)
    return Component(
        NAME,
        node,
        (
            str(binary),
            f"--kubeconfig={access}",
            f"--authentication-kubeconfig={access}",
            f"--authorization-kubeconfig={access}",
            f"--bind-address={node.address}",
            f"--secure-port={PORT}",
            f"--tls-cert-file={pki}/{NAME}.crt",
            f"--tls-private-key-file={pki}/{NAME}.key",
            f"--kubelet-certificate-authority={pki}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
            "--metric-resolution=10s",  # the shortest
            "--kubelet-request-timeout=5s",
        ),
        # Not /readyz, which waits for two rounds of numbers.
        f"https://{node.address}:{PORT}/livez",
    )


def objects_of(instance: Instance) -> list[dict[str, Any]]:
    """Return what leads the API server to it, and its rights."""
    look = ["get", "list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": look},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["extension-apiserver-authentication"],
            "verbs": look,
        },
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]
    authority = base64.b64encode((instance.pki / "ca.crt").read_bytes()).decode()
    api = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": _API_SERVICE},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "service": {"name": NAME, "namespace": _NAMESPACE},
            "caBundle": authority,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    ports = [cluster_objects.ServedPort("https", 443, PORT)]
    service = cluster_objects.served_by_the_node(instance, NAME, ports)
    return [*service, *cluster_objects.rights(f"system:{NAME}", rules), api]
