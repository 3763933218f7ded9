"""Names, addresses and folders of one node of a cluster. The first node also carries the control plane; others are added to it."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.instance import Instance

MOST_ADDED = 8
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


@dataclass(frozen=True)
class Node:
    """One node. Everything that must not collide with another node of the cluster derives from index and name."""

    instance: Instance
    index: int
    name: str

    @property
    def is_first(self) -> bool:
        """Whether this is the node that lives and dies with the cluster."""
        return self.index == 0

    @property
    def address(self) -> str:
        """Address of the node."""
        return f"10.90.{self.instance.number}.{self.index + 1}"

    @property
    def pod_network(self) -> str:
        """The node's share of the cluster's pod network (CIDR)."""
        return f"10.{80 + self.instance.number}.{self.index}.0/24"

    @property
    def port(self) -> str:
        """Where the node is plugged into the first node's bridge: its link is cut and healed there."""
        return f"port{self.index}"

    @property
    def cgroup(self) -> str:
        """Parent of the control groups of the node's pods; below the cluster's own, so that removing that removes all."""
        return self.instance.cgroup if self.is_first else f"{self.instance.cgroup}/{self.name}"

    @property
    def folder(self) -> Path:
        """Folder of the node's data."""
        return self.instance.state if self.is_first else _parent(self.instance) / f"{self.index}-{self.name}"

    @property
    def configuration(self) -> Path:
        """Folder of the configuration files of the node's daemons."""
        return self.folder / "configuration"

    def own(self, name: str) -> str:
        """Return the cluster-wide name of a thing that each node has, such as its kubelet or its kubelet's certificate."""
        return name if self.is_first else f"{name}@{self.name}"


def first(instance: Instance) -> Node:
    """Return the node that carries the control plane."""
    return Node(instance, 0, instance.node_name)


def added(instance: Instance) -> tuple[Node, ...]:
    """Return the nodes that were added to the cluster: each has a folder with an inventory."""
    found = []
    for file in _parent(instance).glob("*-*/inventory.json"):
        index, _, name = file.parent.name.partition("-")
        found.append(Node(instance, int(index), name))
    return tuple(sorted(found, key=lambda node: node.index))


def find_added(instance: Instance, name: str) -> Node:
    """Return an added node by its name. Raises ClusterError that names those there are."""
    nodes = added(instance)
    for node in nodes:
        if node.name == name:
            return node
    names = ", ".join(node.name for node in nodes)
    if name == instance.node_name:
        raise ClusterError(f"{name} carries the control plane: only nodes that were added can be cut or removed")
    raise ClusterError(
        f"there is no added node {name}; " + (f"there are: {names}" if names else "`node add` makes one")
    )


def next_node(instance: Instance, name: str) -> Node:
    """Return the node of this name, or a new one on the first free place. Raises ClusterError when it cannot be."""
    if not _NAME.fullmatch(name) or name == instance.node_name:
        raise ClusterError(
            f"{name!r} cannot name an added node: take up to 40 of a-z, 0-9 and -, not {instance.node_name}"
        )
    nodes = added(instance)
    for node in nodes:
        if node.name == name:
            return node
    free = set(range(1, MOST_ADDED + 1)) - {node.index for node in nodes}
    if not free:
        raise ClusterError(f"the cluster has {MOST_ADDED} added nodes already: remove one first")
    return Node(instance, min(free), name)


def forget(node: Node) -> None:
    """Remove an added node's folder, and with it the node from the list."""
    shutil.rmtree(node.folder, ignore_errors=True)


def _parent(instance: Instance) -> Path:
    return instance.state / "nodes"
