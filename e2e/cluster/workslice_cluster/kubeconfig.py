"""Renders kubeconfig files that carry their certificates, so that one file is all a client needs."""

import base64
import json
from pathlib import Path

from workslice_cluster.instance import Instance

# Daemons that speak to the API server, each with the certificate of the same name.
DAEMONS = ("kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "coredns")


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


def write(instance: Instance) -> None:
    """Write the administrator's and every daemon's kubeconfig from the certificates of the state folder."""
    targets = {"admin": instance.kubeconfig} | {daemon: path_of(instance, daemon) for daemon in DAEMONS}
    for user, target in targets.items():
        authority, certificate, key = (
            (instance.pki / name).read_bytes() for name in ("ca.crt", f"{user}.crt", f"{user}.key")
        )
        target.touch(mode=0o600)
        target.write_text(render(instance.api_server, user, authority, certificate, key))
