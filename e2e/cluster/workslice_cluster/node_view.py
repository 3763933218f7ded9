"""Reads and labels nodes through kubectl."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workslice_cluster.commands import run
from workslice_cluster.instance import Instance
from workslice_cluster.inventory import Inventory
from workslice_cluster.node import Node


def kubectl_environment(instance: Instance) -> dict[str, str]:
    """Return what kubectl and helm need: the kubeconfig and nothing that sends them through a proxy."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(instance.state),
        "KUBECONFIG": str(instance.kubeconfig),
    }


def kubectl(instance: Instance, program: Path, *words: str, stdin: str | None = None) -> str:
    """Run kubectl and return what it printed. Raises ClusterError with its message."""
    argv = [str(program), "--request-timeout=10s", *words]
    environment = kubectl_environment(instance)
    return run(argv, failure="kubectl failed", stdin=stdin, environment=environment, timeout=60)


def node(of: Node, program: Path) -> dict[str, Any] | None:
    """Return the Node object, or None while it does not exist or the API server does not answer."""
    argv = [str(program), "--request-timeout=5s", "get", "node", of.name, "-o", "json"]
    environment = kubectl_environment(of.instance)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def is_ready(node: Mapping[str, Any]) -> bool:
    """Say whether the node takes pods."""
    conditions = {one["type"]: one["status"] for one in node["status"].get("conditions", [])}
    return conditions.get("Ready") == "True"


def allocatable(node: Mapping[str, Any]) -> dict[str, int]:
    """Return extended resource name to how many healthy devices the node offers."""
    offered = node["status"].get("allocatable", {})
    return {name: int(count) for name, count in offered.items() if name.startswith("nvidia.com/")}


def offers(node: Mapping[str, Any], inventory: Inventory) -> bool:
    """Say whether the node knows every resource of the inventory, with all its devices."""
    capacity = node["status"].get("capacity", {})
    return all(capacity.get(part.resource) == str(part.count) for part in inventory.slices)
