"""The private namespaces of a node: one init holds them, everything else enters, and all ends when the init is killed.

The namespaces of added nodes are inside those of the first node, and end with it.
"""

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from workslice_cluster import processes
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import last_lines, run
from workslice_cluster.instance import Instance
from workslice_cluster.node import Node

_UNSHARE = ("unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
_INIT = ("tini", "--", "sleep", "infinity")
# Daemons get nothing of the caller's environment: no proxies, no credentials.
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}


def find_init(node: Node) -> int | None:
    """Return the PID (as the host sees it) of the init that holds the node's namespaces, or None."""
    for process in processes.of_cluster(node.instance.state):
        pids = process.namespaced_pids
        if process.argv[0] != _INIT[0] or not pids or pids[-1] != 1:
            continue
        # The first node's PID namespace is in the host's, the others are in the first one's.
        if len(pids) == (2 if node.is_first else 3) and process.environment.get(processes.NODE_MARK, "") == node.own(
            ""
        ):
            return process.pid
    return None


def create(node: Node, parent: int | None = None) -> int:
    """Start the node's init in new namespaces, inside those that the init `parent` holds, and return its PID.

    Raises ClusterError when the machine does not allow it.
    """
    log = node.instance.log / f"{node.own('namespaces')}.log"
    # A node sees what the first one unmounts, else it would keep it busy.
    command = [*_UNSHARE, "--propagation", "slave" if parent else "private", *_INIT]
    marks = {
        processes.CLUSTER_MARK: str(node.instance.state),
        processes.INSTANCE_MARK: str(node.instance.number),
        processes.NODE_MARK: node.own(""),
    }
    with log.open("ab") as output:
        holder = subprocess.Popen(
            inside(parent, command) if parent else command,
            env={**_ENVIRONMENT, **marks},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and holder.poll() is None:
        if pid := find_init(node):
            return pid
        time.sleep(0.02)
    raise ClusterError(
        "private namespaces could not be made: the cluster needs root and a kernel (or container) that allows unshare\n"
        + last_lines(log.read_text())
    )


def inside(init: int, argv: Sequence[str | Path]) -> list[str]:
    """Return the command that runs another one inside a node's namespaces."""
    return ["nsenter", "-t", str(init), "-m", "-n", "-u", "-i", "-p", "--", *(str(word) for word in argv)]


def start_daemon(
    instance: Instance, init: int, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None
) -> None:
    """Start a program inside that goes on after this command; its output is appended to the log named after it."""
    marks = {processes.CLUSTER_MARK: str(instance.state), processes.COMPONENT_MARK: name}
    # The shell leaves at once and the init adopts the daemon; all three streams are redirected, else the caller's pipe hangs.
    shell = ["sh", "-c", 'setsid "$@" </dev/null >>"$0" 2>&1 &', str(instance.log / f"{name}.log"), *argv]
    run(
        inside(init, shell),
        failure=f"{name} could not be started",
        environment={**_ENVIRONMENT, **marks, **(environment or {})},
    )
