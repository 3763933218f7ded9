"""Starts daemons, waits until they are well, and stops them."""

import json
import time
from collections.abc import Callable

from workslice_cluster import cluster_objects, image_import, namespaces, node_view, processes
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import last_lines
from workslice_cluster.component import Component
from workslice_cluster.health import answers_well
from workslice_cluster.prepare import Parts
from workslice_cluster.processes import Process
from workslice_cluster.progress import step

SECONDS_BETWEEN_LOOKS = 0.1
SECONDS_TO_REGISTER = 60.0


def process_of(component: Component) -> Process | None:
    """Return the live process of a daemon."""
    running = processes.of_cluster(component.node.instance.state)
    return processes.component(running, component.name, component.argv[0])


def ensure(component: Component, init: int, parts: Parts) -> None:
    """Start a daemon that does not run, wait until it is well, and do what its successors need.

    `init` holds the namespaces of the daemon's node. Raises ClusterError with the daemon's last words.
    """
    instance = component.node.instance
    if not process_of(component):
        if component.kind == "kube-router":
            _wait_until_registered(component, parts)
        with step(f"starting {component.name}"):
            namespaces.start_daemon(instance, init, component.name, component.argv, component.environment)
            _wait_until_well(component, init)
    elif component.health:
        _wait_until_well(component, init)
    if component.kind == "containerd":
        image_import.load(init, parts.pause_archive)
    if component.kind == "kube-apiserver":
        objects = json.dumps(cluster_objects.cluster_objects(instance))
        node_view.kubectl(instance, parts.kubectl, "apply", "--server-side", "-f", "-", stdin=objects)


def stop(component: Component, patience: float = 10) -> None:
    """End a daemon at once, as a crash does, and return when it has ended; one that does not run is fine.

    `patience` is in seconds. Raises ClusterError when the process does not end.
    """
    deadline = time.monotonic() + patience
    while process := process_of(component):
        if time.monotonic() > deadline:
            raise ClusterError(f"{component.name} (PID {process.pid}) does not end")
        processes.kill(process)
        time.sleep(0.02)


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


def _wait_until_registered(component: Component, parts: Parts) -> None:
    node = component.node

    def registered() -> bool:
        return node_view.node(node, parts.kubectl) is not None

    if _wait(SECONDS_TO_REGISTER, registered, lambda: True):
        raise ClusterError(
            f"node {node.name} has not registered for {SECONDS_TO_REGISTER:.0f} s: see {node.own('kubelet')}.log in "
            f"{node.instance.log}"
        )


def _wait_until_well(component: Component, init: int) -> None:
    def well() -> bool:
        if component.kind == "containerd":
            return image_import.containerd_answers(init)
        return answers_well(component.health) if component.health else process_of(component) is not None

    # A daemon that was just started appears among the processes a moment later.
    started = time.monotonic()
    failed = _wait(
        component.patience, well, lambda: time.monotonic() - started < 2 or process_of(component) is not None
    )
    if failed:
        log = component.log
        raise ClusterError(
            f"{component.name} {failed}; run `down`, then `up` again. The last lines of {log}:\n"
            + last_lines(log.read_text(errors="replace") if log.exists() else "")
        )
