"""Finds a cluster's processes by a mark in their environment, whatever became of the command that started them."""

import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CLUSTER_MARK = "WORKSLICE_CLUSTER_MEMBER_OF"
COMPONENT_MARK = "WORKSLICE_CLUSTER_COMPONENT"
NODE_MARK = "WORKSLICE_CLUSTER_NODE"  # of an init; that of the first node may have none
INSTANCE_MARK = "WORKSLICE_CLUSTER_NUMBER"  # of an init


@dataclass(frozen=True)
class Process:
    """One live process of the machine; `namespaced_pids` is its number in each PID namespace, outermost first."""

    pid: int
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    namespaced_pids: tuple[int, ...]


def of_cluster(state: Path) -> list[Process]:
    """Return the processes that carry the mark of the cluster with this state folder; zombies are not among them."""
    return _marked(f"{CLUSTER_MARK}={state}".encode())


def other_state_of(number: int, state: Path) -> str | None:
    """Return the state folder of another cluster that runs under this instance number, or None."""
    for process in _marked(f"{INSTANCE_MARK}={number}".encode()):
        other = process.environment.get(CLUSTER_MARK)
        if other and other != str(state):
            return other
    return None


def _marked(wanted: bytes) -> list[Process]:
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        folder = Path("/proc", entry)
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            if wanted not in environment:
                continue
            argv = tuple((folder / "cmdline").read_text().rstrip("\0").split("\0"))
            status = (folder / "status").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended while we looked, or is not ours
        pairs = (line.decode(errors="replace").partition("=") for line in environment if line)
        found.append(Process(int(entry), argv, {name: value for name, _, value in pairs}, _namespaced_pids(status)))
    return found


def _namespaced_pids(status: str) -> tuple[int, ...]:
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return tuple(int(word) for word in line.split()[1:])
    return ()


def component(running: list[Process], name: str, program: str) -> Process | None:
    """Return the process of a component. Children inherit the mark (containerd's shims do), so the program counts too."""
    for process in running:
        if process.environment.get(COMPONENT_MARK) == name and Path(process.argv[0]).name == Path(program).name:
            return process
    return None


def kill(process: Process) -> None:
    """End a process at once; one that is gone already is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
