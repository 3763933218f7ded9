"""What starting a node needs besides its daemons: files, namespaces, and to wait until it takes pods."""

import json
import time
from pathlib import Path

from workslice_cluster import (
    certificates,
    configuration_files,
    control_groups,
    inventory,
    kubeconfig,
    mounts,
    namespaces,
    node_labels,
    node_view,
)
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.inventory import Inventory
from workslice_cluster.node import Node
from workslice_cluster.prepare import Parts
from workslice_cluster.progress import step

PATIENCE = 90.0  # seconds


def foundation_mark(node: Node) -> Path:
    """Return the file that says that namespaces, mounts, network and certificates are complete."""
    return node.folder / "founded"


def write_files(node: Node, wanted: Inventory) -> None:
    """Write what the node's daemons read: inventory, certificate and configuration."""
    node.folder.mkdir(parents=True, exist_ok=True)
    inventory.path_of(node.folder).write_text(inventory.to_json(wanted))
    certificates.issue(node.instance, certificates.of_kubelet(node))
    kubeconfig.write(node.instance, node.own("kubelet"))
    configuration_files.write(node.configuration, configuration_files.of_node(node))


def make_namespaces(node: Node, parent: int | None = None) -> int:
    """Make control groups, namespaces (inside those of the init `parent`) and mounts; return the new init's PID."""
    control_groups.create(node.cgroup)
    init = namespaces.create(node, parent)
    mounts.create(node, init)
    return init


def wait_until_usable(node: Node, parts: Parts, wanted: Inventory) -> None:
    """Label the node and wait until it is ready and offers its slices."""
    deadline = time.monotonic() + PATIENCE
    labels = [f"{name}={value}" for name, value in node_labels.node_labels(wanted).items()]
    with step(f"waiting for node {node.name} and its slices"):
        while True:
            seen = node_view.node(node, parts.kubectl)
            if seen and node_view.is_ready(seen) and node_view.offers(seen, wanted):
                break
            if time.monotonic() > deadline:
                missing = (
                    "it never registered" if seen is None else json.dumps(seen["status"].get("conditions"), indent=2)
                )
                raise ClusterError(
                    f"node {node.name} is not usable after {PATIENCE:.0f} s: {missing}\n"
                    f"Look into {node.own('kubelet')}.log and {node.own('device-plugin')}.log in {node.instance.log}; "
                    "then run `down` and `up`."
                )
            time.sleep(0.3)
        node_view.kubectl(node.instance, parts.kubectl, "label", "--overwrite", "node", node.name, *labels)
