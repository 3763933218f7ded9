"""Adds nodes to a running cluster, mends them, and takes them away again."""

import os
import time

from workslice_cluster import (
    control_groups,
    daemons,
    image_import,
    inventory,
    namespaces,
    network,
    node_link,
    node_start,
    node_view,
)
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.inventory import Inventory
from workslice_cluster.node import Node, added, forget
from workslice_cluster.node_daemons import node_daemons
from workslice_cluster.prepare import Parts
from workslice_cluster.progress import step

PATIENCE = 20.0  # seconds


def add(node: Node, first_init: int, parts: Parts, wanted: Inventory) -> None:
    """Bring the node to life, or mend it, and return when it takes pods; its link is healed. The caller holds the lock.

    Raises ClusterError when it does not start, or when it runs with another inventory.
    """
    init = namespaces.find_init(node)
    if init and node_start.foundation_mark(node).exists():
        if inventory.read(node.folder) != wanted:
            raise ClusterError(f"node {node.name} has another inventory: run `node remove {node.name}` first")
        node_link.set_state(node, first_init, "up")
    else:
        _release(node, first_init)
        forget(node)
        init = _found(node, first_init, wanted)
    containerd, *others = node_daemons(node, parts.binaries)
    daemons.ensure(containerd, init, parts)
    # Before the kubelet: pods that come at once must find their images, which no registry could give.
    with step(f"images for node {node.name}"):
        image_import.copy(first_init, init, node.folder / "images.tar")
    for component in others:
        daemons.ensure(component, init, parts)
    node_start.wait_until_usable(node, parts, wanted)


def mend_all(first_node: Node, first_init: int, parts: Parts) -> None:
    """Bring back every added node that was lost, or parts of it."""
    for node in added(first_node.instance):
        add(node, first_init, parts, inventory.read(node.folder))


def remove(node: Node, first_init: int, parts: Parts) -> None:
    """Take the node away at once, as a machine that loses power, and its Node object with it."""
    _release(node, first_init)
    gone = ("delete", "node", node.name, "--ignore-not-found", "--wait=false")
    node_view.kubectl(node.instance, parts.kubectl, *gone)
    forget(node)


def _found(node: Node, first_init: int, wanted: Inventory) -> int:
    with step(f"namespaces, control groups, mounts and link of node {node.name}"):
        node_start.write_files(node, wanted)
        init = node_start.make_namespaces(node, first_init)
        node_link.create(node, first_init, init)
        network.let_host_pass(node.instance, init)
        node_start.foundation_mark(node).touch()
    return init


def _release(node: Node, first_init: int) -> None:
    """End the node and remove what the machine holds of it, its data excepted."""
    deadline = time.monotonic() + PATIENCE
    if init := namespaces.find_init(node):
        os.kill(init, 9)  # with it the kernel ends every process of the node, pods included
    node_link.remove(node, first_init)
    control_groups.remove(node.cgroup, deadline)
