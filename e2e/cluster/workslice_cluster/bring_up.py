"""Starts a cluster, or mends one: what runs and is well is left alone."""

import os
import shutil

from workslice_cluster import (
    added_node,
    certificates,
    configuration_files,
    daemons,
    inventory,
    kubeconfig,
    leftovers,
    namespaces,
    network,
    node_start,
    node_view,
)
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.control_plane import control_plane_daemons
from workslice_cluster.instance import Instance
from workslice_cluster.inventory import Inventory
from workslice_cluster.node import first
from workslice_cluster.node_daemons import node_daemons
from workslice_cluster.prepare import Parts
from workslice_cluster.progress import say, step


def bring_up(instance: Instance, parts: Parts, wanted: Inventory, control_plane_only: bool = False) -> None:
    """Bring the cluster to life and return when it takes pods. The caller holds the lock.

    `control_plane_only`: etcd, API server and controllers, for tests whose nodes and pods are objects and nothing else. No scheduler:
    whoever makes such nodes says what runs there, and they are as ready as they say. Take it down before bringing up a whole one.

    Raises ClusterError with the last words of the daemon that did not start, or when the running cluster has another
    inventory.
    """
    if os.geteuid() != 0:
        raise ClusterError("the embedded cluster makes namespaces and network links: run it as root")
    node = first(instance)
    init = _running_init(instance, wanted)
    if init is None:
        init = _found(instance, wanted)
    _complete(instance, init)
    control_plane = control_plane_daemons(instance, parts.binaries, kubelets=not control_plane_only)
    own = control_plane[:3] if control_plane_only else (*control_plane, *node_daemons(node, parts.binaries))
    for component in own:
        daemons.ensure(component, init, parts)
    if not control_plane_only:
        node_start.wait_until_usable(node, parts, wanted)
    account = ("wait", "--for=create", "serviceaccount/default", "--namespace=default", "--timeout=30s")
    node_view.kubectl(instance, parts.kubectl, *account)
    added_node.mend_all(node, init, parts)
    say(f"the cluster is up: export KUBECONFIG={instance.kubeconfig}")


def _running_init(instance: Instance, wanted: Inventory) -> int | None:
    """Return the init of a cluster that can be mended, after removing one that cannot."""
    node = first(instance)
    init = namespaces.find_init(node)
    if init and node_start.foundation_mark(node).exists():
        if inventory.read(instance.state) != wanted:
            raise ClusterError("the cluster runs with another inventory: run `down` first")
        return init
    if leftovers.find(instance):
        with step("removing what an interrupted start left behind"):
            leftovers.remove(instance)
    return None


def _found(instance: Instance, wanted: Inventory) -> int:
    """Make all that the daemons stand on, and return the init's PID."""
    node = first(instance)
    network.check_host(instance)
    with step("state folder and certificates"):
        leftovers.remove(instance)
        shutil.rmtree(instance.log, ignore_errors=True)
        instance.log.mkdir(parents=True)
        (instance.state / "etcd").mkdir(mode=0o700)
        certificates.create_authority(instance)
        node_start.write_files(node, wanted)
    with step("namespaces, control groups, mounts and network"):
        init = node_start.make_namespaces(node)
        network.create(instance, init)
        node_start.foundation_mark(node).touch()
    return init


def _complete(instance: Instance, init: int) -> None:
    """Add what a running cluster of an older checkout lacks."""
    for certificate in certificates.table(instance):
        certificates.issue(instance, certificate)
    for user in kubeconfig.USERS:
        kubeconfig.write(instance, user)
    configuration_files.write(first(instance).configuration, configuration_files.of_control_plane(instance))
    network.let_host_pass(instance, init)
