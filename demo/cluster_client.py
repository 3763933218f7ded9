"""kubectl and helm against one cluster."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workslice_cluster import client_tools
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.commands import run


@dataclass(frozen=True)
class Cluster:
    """A cluster by its kubeconfig, with the client programs to use."""

    kubeconfig: Path
    kubectl_program: Path
    helm_program: Path

    def kubectl(self, *words: str, stdin: str | None = None, seconds: float = 60) -> str:
        """Run kubectl and return what it prints. Raises ClusterError with its message."""
        argv = [self.kubectl_program, f"--kubeconfig={self.kubeconfig}", *words]
        return run(argv, failure=f"kubectl {' '.join(words[:3])} failed", stdin=stdin, timeout=seconds)

    def helm(self, *words: str, seconds: float = 300) -> str:
        """Run helm and return what it prints. Raises ClusterError with its message."""
        argv = [self.helm_program, f"--kubeconfig={self.kubeconfig}", *words]
        return run(
            argv, failure=f"helm {' '.join(words[:2])} failed", environment=_environment_of_helm(), timeout=seconds
        )

    def get(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """Return one object. Raises ClusterError when there is none."""
        return dict(json.loads(self.kubectl("get", kind, name, "-n", namespace, "-o", "json")))

    def find(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """Return one object, or None when there is none."""
        text = self.kubectl("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found")
        return dict(json.loads(text)) if text.strip() else None

    def objects(self, kind: str, namespace: str | None = None, selector: str = "") -> list[dict[str, Any]]:
        """Return the objects of a kind in a namespace (None: in all), chosen by a label selector."""
        where = ["-A"] if namespace is None else ["-n", namespace]
        text = self.kubectl("get", kind, *where, "-l", selector, "-o", "json")
        return list(json.loads(text)["items"])

    def apply(self, manifests: str | list[dict[str, Any]], *options: str) -> str:
        """Apply YAML text, or objects."""
        text = (
            manifests
            if isinstance(manifests, str)
            else json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        )
        return self.kubectl("apply", *options, "-f", "-", stdin=text)

    def patch(self, kind: str, name: str, namespace: str, change: dict[str, Any]) -> None:
        """Change fields of an object (JSON merge patch)."""
        self.kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", json.dumps(change))


def _environment_of_helm() -> dict[str, str]:
    """Return the caller's environment without what would lead helm, and not kubectl, to another cluster or namespace.

    HELM_DRIVER goes as well: releases that are kept elsewhere are not seen.
    """
    elsewhere = ("HELM_KUBE", "HELM_NAMESPACE", "HELM_DRIVER")
    return {name: value for name, value in os.environ.items() if not name.startswith(elsewhere)}


def connect(kubeconfig: Path) -> Cluster:
    """Return the cluster of a kubeconfig; fetches kubectl and helm when the cache lacks them."""
    tools = client_tools.ensure(cache_folder())
    return Cluster(kubeconfig, tools["kubectl"], tools["helm"])
