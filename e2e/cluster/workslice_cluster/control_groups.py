"""The control groups below which the kubelet keeps all pods of one cluster: made before, removed after."""

import time
from pathlib import Path

from workslice_cluster.cluster_error import ClusterError

_V2_CONTROLLERS = "+cpu +cpuset +io +memory +pids"


def hierarchies(mountinfo: str) -> tuple[list[Path], list[Path]]:
    """Return the mount points of version 1 and of version 2 control groups that a mountinfo text lists."""
    versions: dict[str, list[Path]] = {"cgroup": [], "cgroup2": []}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind = after.split(" ")[0]
        if kind in versions:
            versions[kind].append(Path(before.split(" ")[4]))
    return versions["cgroup"], versions["cgroup2"]


def _mounted() -> tuple[list[Path], list[Path]]:
    return hierarchies(Path("/proc/self/mountinfo").read_text())


def create(name: str) -> None:
    """Make a group in every hierarchy; the group above it exists. Raises ClusterError when the machine has no hierarchy."""
    version_1, version_2 = _mounted()
    if not version_1 and not version_2:
        raise ClusterError("no control groups are mounted at /sys/fs/cgroup: the kubelet cannot run without them")
    for root in version_1:
        group = root / name
        group.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):  # a new group of this hierarchy is empty and takes no process
            if (group / file).exists():
                (group / file).write_text((group.parent / file).read_text())
    if not version_1:
        for root in version_2:
            group = root / name
            group.mkdir(exist_ok=True)
            for owner in (group.parent, group):
                (owner / "cgroup.subtree_control").write_text(_V2_CONTROLLERS)


def existing(name: str) -> list[Path]:
    """Return a group with all below it, deepest first."""
    version_1, version_2 = _mounted()
    found: list[Path] = []
    for root in (*version_1, *version_2):
        top = root / name
        if top.is_dir():
            found += [top, *(path for path in top.rglob("*") if path.is_dir())]
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def remove(name: str, deadline: float) -> None:
    """Remove a group with all below it; one whose last process is still ending is tried again until `deadline`.

    `deadline` is a time of time.monotonic(). Raises ClusterError with what is left.
    """
    while groups := existing(name):
        for group in groups:
            try:
                group.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                if time.monotonic() > deadline:
                    raise ClusterError(f"control group {group} cannot be removed: a process is still in it") from None
        time.sleep(0.05)
