"""A second embedded cluster, for tests that kill parts of it: it runs beside the shared one and is driven by its command line."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

INSTANCE = "7"
LINK = f"workslice{INSTANCE}"
NODE = f"workslice-{INSTANCE}-node"
GROUP = f"workslice-{INSTANCE}"
"""Within it the cluster has all of its control groups."""


class SecondCluster:
    """The second cluster, driven by its command line as a user would."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.environment = {**os.environ, "WORKSLICE_CLUSTER_INSTANCE": INSTANCE, "WORKSLICE_CLUSTER_STATE": str(state)}
        self.namespaces: set[str] = set()
        self.remembered_at = 0.0

    def start(self, *words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "workslice_cluster", *words]
        return subprocess.Popen(
            command,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str, stdin: str = "") -> str:
        with self.start(*words) as process:
            output, _ = process.communicate(stdin, timeout=300)
        assert process.returncode == 0, output
        return output

    def remember_namespaces(self) -> int:
        """Note the namespaces of everything that carries the state folder in its environment; return how many inits."""
        self.remembered_at = float(read(Path("/proc/uptime")).split()[0])
        inits = 0
        for pid, folder in process_folders():
            environment = read(folder / "environ").split("\0")
            if not any(str(self.state) in line for line in environment) or pid == os.getpid():
                continue
            for kind in ("net", "mnt", "pid"):
                name = read_link(folder / "ns" / kind)
                if name and name != os.readlink(f"/proc/self/ns/{kind}"):
                    self.namespaces.add(name)
            inits += read(folder / "cmdline").startswith("tini\0")
        return inits


def read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # the process has ended
        return ""


def read_link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def process_folders() -> Iterator[tuple[int, Path]]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            yield int(name), Path("/proc", name)


def started_at(process: Path) -> float:
    """When the process of a folder of /proc started, in seconds since the machine did; infinity when it has ended."""
    fields = read(process / "stat").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK") if fields else float("inf")
