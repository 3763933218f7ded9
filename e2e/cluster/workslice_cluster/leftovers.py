"""Finds and removes everything of a cluster by what is on the machine, so that a crashed start is cleaned as well."""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from workslice_cluster import control_groups, namespaces, network, processes
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.instance import Instance
from workslice_cluster.node import first

PATIENCE = 20.0  # seconds


@dataclass(frozen=True)
class Leftovers:
    """What of a cluster the machine holds."""

    processes: tuple[int, ...]
    mounts: tuple[str, ...]
    link: bool
    groups: tuple[Path, ...]

    def __bool__(self) -> bool:
        return bool(self.processes or self.mounts or self.link or self.groups)


def mounts_below(mountinfo: str, folder: Path) -> list[str]:
    """Return mount points at or below a folder, the latest (innermost) first."""
    points = [line.split(" ")[4].replace(r"\040", " ") for line in mountinfo.splitlines()]
    return [point for point in reversed(points) if Path(point).is_relative_to(folder)]


def find(instance: Instance) -> Leftovers:
    """Return what the machine holds of this cluster. Host routes hang on the link and are gone with it.

    Raises ClusterError when link and control groups belong to another cluster with the same instance number.
    """
    _refuse_what_another_cluster_holds(instance)
    return Leftovers(
        tuple(process.pid for process in processes.of_cluster(instance.state) if process.pid != os.getpid()),
        tuple(mounts_below(Path("/proc/self/mountinfo").read_text(), instance.state)),
        network.link_exists(instance),
        tuple(control_groups.existing(instance.cgroup)),
    )


def remove(instance: Instance) -> None:
    """Remove all of it, and the state except the logs. Raises ClusterError that names what resists."""
    _refuse_what_another_cluster_holds(instance)
    deadline = time.monotonic() + PATIENCE
    # The init first: with it the kernel ends every process of its PID namespace, pods included.
    if init := namespaces.find_init(first(instance)):
        os.kill(init, 9)
    while running := [one for one in processes.of_cluster(instance.state) if one.pid != os.getpid()]:
        for process in running:
            processes.kill(process)
        if time.monotonic() > deadline:
            raise ClusterError(f"processes {[one.pid for one in running]} of the cluster do not end")
        time.sleep(0.05)
    for point in mounts_below(Path("/proc/self/mountinfo").read_text(), instance.state):
        run(["umount", "--lazy", point], failure=f"{point} could not be unmounted")
    # The link vanishes with the network namespace, which the kernel takes apart a moment later.
    while network.link_exists(instance):
        subprocess.run(["ip", "link", "delete", instance.link], capture_output=True, check=False)
        if time.monotonic() > deadline:
            raise ClusterError(
                f"network interface {instance.link} cannot be removed: try `ip link delete {instance.link}`"
            )
        time.sleep(0.05)
    control_groups.remove(instance.cgroup, deadline)
    if instance.state.is_dir():
        for entry in instance.state.iterdir():
            if entry == instance.log:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def _refuse_what_another_cluster_holds(instance: Instance) -> None:
    if other := processes.other_state_of(instance.number, instance.state):
        raise ClusterError(
            f"instance {instance.number} is the number of the cluster in {other}, which runs: set WORKSLICE_CLUSTER_INSTANCE "
            "to another number from 0 to 7, or WORKSLICE_CLUSTER_STATE to that folder"
        )
