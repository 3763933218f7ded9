"""What a node sees differently from the host: its own /run and data folders, and kernel settings it must not change."""

from collections.abc import Mapping
from pathlib import Path

from workslice_cluster.commands import run
from workslice_cluster.namespaces import inside
from workslice_cluster.node import Node

# The kubelet sets these for the whole machine. Files with the wanted values over them make it believe they are set.
KERNEL_SETTINGS: Mapping[str, str] = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
# Paths that are fixed in the kubelet or the CNI plugins, and the folder of the state that takes their place.
DATA_FOLDERS: Mapping[str, str] = {
    "/var/lib/kubelet": "kubelet",
    "/var/log/pods": "pod-logs",
    "/var/log/containers": "container-logs",
    "/var/lib/cni": "cni",
}


def script(node: Node) -> str:
    """Return the shell script that makes the mounts, to be run once inside fresh namespaces."""
    lines = ["set -e", "mount --make-rshared /"]
    if not node.is_first:
        # What the first node has there came along; it would stay busy here after the first node has let go of it.
        lines += [f"umount --recursive --lazy {path}" for path in ("/run", *DATA_FOLDERS)]
    lines.append("mount -t tmpfs -o mode=755 tmpfs /run")
    for path, folder in DATA_FOLDERS.items():
        lines += [f"mkdir -p {path} '{node.folder}/{folder}'", f"mount --bind '{node.folder}/{folder}' {path}"]
    lines.append("mount --make-rshared /var/lib/kubelet")
    for setting, value in KERNEL_SETTINGS.items():
        file = f"/run/kernel-settings/{setting.replace('/', '.')}"
        lines += [f"mkdir -p {Path(file).parent}", f"echo {value} >{file}", f"mount --bind {file} /proc/sys/{setting}"]
    return "\n".join(lines) + "\n"


def create(node: Node, init: int) -> None:
    """Make the mounts inside the node's mount namespace."""
    run(inside(init, ["sh", "-c", script(node)]), failure=f"the mounts of node {node.name} could not be made")
