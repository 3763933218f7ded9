"""All daemons of a cluster, to be looked through or found by name."""

from collections.abc import Mapping
from pathlib import Path

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.component import Component
from workslice_cluster.control_plane import control_plane_daemons
from workslice_cluster.instance import Instance
from workslice_cluster.node import added, first
from workslice_cluster.node_daemons import node_daemons


def table(instance: Instance, binaries: Mapping[str, Path]) -> tuple[Component, ...]:
    """Return all daemons of the cluster: those of the first node in the order in which they start, then those of each added one."""
    control_plane = control_plane_daemons(instance, binaries)
    added_ones = [one for node in added(instance) for one in node_daemons(node, binaries)]
    return (*control_plane, *node_daemons(first(instance), binaries), *added_ones)


def find(instance: Instance, binaries: Mapping[str, Path], name: str) -> Component:
    """Return the daemon of this name. Raises ClusterError that lists all names."""
    known = table(instance, binaries)
    for component in known:
        if component.name == name:
            return component
    raise ClusterError(f"there is no component {name!r}; the components are {', '.join(one.name for one in known)}")
