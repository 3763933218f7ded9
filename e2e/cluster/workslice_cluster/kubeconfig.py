"""Renders kubeconfig files that carry their certificates, so that one file is all a client needs."""

import base64
import json
from pathlib import Path

from workslice_cluster.instance import Instance

ADMINISTRATOR = "admin"
# Who speaks to the API server, each with the certificate of the same name; added nodes have kubelets of their own beside.
USERS = (
    ADMINISTRATOR,
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kube-router",
    "kubelet",
    "coredns",
)


def render(server: str, user: str, authority: bytes, certificate: bytes, key: bytes) -> str:
    """Return a kubeconfig (JSON is YAML too) with one cluster, one user and one context."""

    def data(content: bytes) -> str:
        return base64.b64encode(content).decode()

    name = "workslice"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": data(authority)}}],
        "users": [{"name": user, "user": {"client-certificate-data": data(certificate), "client-key-data": data(key)}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    return json.dumps(document, indent=2) + "\n"


def path_of(instance: Instance, daemon: str) -> Path:
    """Return where a daemon's kubeconfig lies."""
    return instance.configuration / f"{daemon}.kubeconfig"


def write(instance: Instance, user: str) -> None:
    """Write the kubeconfig of a user from the certificate of the same name, unless it is there."""
    target = instance.kubeconfig if user == ADMINISTRATOR else path_of(instance, user)
    if target.exists():
        return
    authority, certificate, key = (
        (instance.pki / name).read_bytes() for name in ("ca.crt", f"{user}.crt", f"{user}.key")
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch(mode=0o600)
    target.write_text(render(instance.api_server, user, authority, certificate, key))
