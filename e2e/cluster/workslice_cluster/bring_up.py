"""Starts a cluster, or mends one: what runs and is well is left alone."""

import json
import os
import shutil
import time
from collections.abc import Callable

from workslice_cluster import (
    certificates,
    cluster_objects,
    components,
    configuration_files,
    control_groups,
    image_import,
    inventory,
    kubeconfig,
    leftovers,
    mounts,
    namespaces,
    network,
    node_labels,
    node_view,
    processes,
)
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import last_lines
from workslice_cluster.components import Component
from workslice_cluster.health import answers_well
from workslice_cluster.instance import Instance
from workslice_cluster.inventory import Inventory
from workslice_cluster.prepare import Parts
from workslice_cluster.progress import say, step

SECONDS_BETWEEN_LOOKS = 0.1


def bring_up(instance: Instance, parts: Parts, wanted: Inventory) -> None:
    """Bring the cluster to life and return when it takes pods. The caller holds the lock.

    Raises ClusterError with the last words of the daemon that did not start, or when the running cluster has another
    inventory.
    """
    if os.geteuid() != 0:
        raise ClusterError("the embedded cluster makes namespaces and network links: run it as root")
    init = _running_init(instance, wanted)
    if init is None:
        init = _found(instance, wanted)
    for component in components.table(instance, parts.binaries):
        _ensure(instance, init, component, parts)
    _wait_until_usable(instance, parts, wanted)
    say(f"the cluster is up: export KUBECONFIG={instance.kubeconfig}")


def _foundation_mark(instance: Instance) -> str:
    """Return the file that says that namespaces, mounts, network and certificates are complete."""
    return str(instance.state / "founded")


def _running_init(instance: Instance, wanted: Inventory) -> int | None:
    """Return the init of a cluster that can be mended, after removing one that cannot."""
    init = namespaces.find_init(instance.state)
    if init and os.path.exists(_foundation_mark(instance)):
        if inventory.read(instance.state) != wanted:
            raise ClusterError("the cluster runs with another inventory: run `down` first")
        return init
    if leftovers.find(instance):
        with step("removing what an interrupted start left behind"):
            leftovers.remove(instance)
    return None


def _found(instance: Instance, wanted: Inventory) -> int:
    """Make all that the daemons stand on, and return the init's PID."""
    network.check_host(instance)
    with step("state folder and certificates"):
        leftovers.remove(instance)
        shutil.rmtree(instance.log, ignore_errors=True)
        for folder in (instance.log, instance.configuration / "cni"):
            folder.mkdir(parents=True)
        (instance.state / "etcd").mkdir(mode=0o700)
        inventory.path_of(instance.state).write_text(inventory.to_json(wanted))
        certificates.create(instance)
        kubeconfig.write(instance)
        for name, content in configuration_files.render(instance).items():
            (instance.configuration / name).write_text(content)
    with step("namespaces, control groups, mounts and network"):
        control_groups.create(instance.cgroup)
        init = namespaces.create(instance)
        mounts.create(instance, init)
        network.create(instance, init)
        open(_foundation_mark(instance), "x").close()
    return init


def _ensure(instance: Instance, init: int, component: Component, parts: Parts) -> None:
    """Start a daemon that does not run, wait until it is well, and do what its successors need."""
    if not processes.component(processes.of_cluster(instance.state), component.name, component.argv[0]):
        with step(f"starting {component.name}"):
            namespaces.start_daemon(instance, init, component.name, component.argv, component.environment)
            _wait_until_well(instance, component, init)
    elif component.health:
        _wait_until_well(instance, component, init)
    if component.name == "containerd":
        image_import.load(init, parts.pause_archive)
    if component.name == "kube-apiserver":
        objects = json.dumps(cluster_objects.cluster_objects(instance))
        node_view.kubectl(instance, parts.kubectl, "apply", "--server-side", "-f", "-", stdin=objects)


def _wait(patience: float, well: Callable[[], bool], alive: Callable[[], bool]) -> str | None:
    """Return None when well, else how it failed: dead or late."""
    deadline = time.monotonic() + patience
    while not well():
        if not alive():
            return "ended"
        if time.monotonic() > deadline:
            return f"is not well after {patience:.0f} s"
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return None


def _wait_until_well(instance: Instance, component: Component, init: int) -> None:
    def alive() -> bool:
        running = processes.of_cluster(instance.state)
        return processes.component(running, component.name, component.argv[0]) is not None

    def well() -> bool:
        if component.name == "containerd":
            return image_import.containerd_answers(init)
        return answers_well(component.health) if component.health else alive()

    # A daemon that was just started appears among the processes a moment later.
    started = time.monotonic()
    failed = _wait(component.patience, well, lambda: time.monotonic() - started < 2 or alive())
    if failed:
        log = instance.log / f"{component.name}.log"
        raise ClusterError(
            f"{component.name} {failed}; run `down`, then `up` again. The last lines of {log}:\n"
            + last_lines(log.read_text(errors="replace") if log.exists() else "")
        )


def _wait_until_usable(instance: Instance, parts: Parts, wanted: Inventory) -> None:
    """Label the node and wait until it is ready, offers its slices, and pods find their service account."""
    patience = 90.0
    deadline = time.monotonic() + patience
    labels = [f"{name}={value}" for name, value in node_labels.node_labels(wanted).items()]
    with step(f"waiting for node {instance.node_name} and its slices"):
        while True:
            node = node_view.node(instance, parts.kubectl)
            if node and node_view.is_ready(node) and node_view.offers(node, wanted):
                break
            if time.monotonic() > deadline:
                missing = (
                    "it never registered" if node is None else json.dumps(node["status"].get("conditions"), indent=2)
                )
                raise ClusterError(
                    f"node {instance.node_name} is not usable after {patience:.0f} s: {missing}\n"
                    f"Look into {instance.log}/kubelet.log and device-plugin.log; then run `down` and `up`."
                )
            time.sleep(0.3)
        node_view.kubectl(instance, parts.kubectl, "label", "--overwrite", "node", instance.node_name, *labels)
        wait = ("wait", "--for=create", "serviceaccount/default", "--namespace=default", "--timeout=30s")
        node_view.kubectl(instance, parts.kubectl, *wait)
