"""Debian packages that the cluster needs, installed when they are missing."""

import os
import shutil
import subprocess
from collections.abc import Iterable

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.progress import step

CLUSTER = (
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "ethtool",
    "iproute2",
    "ipset",
    "iptables",
    "kmod",
    "nftables",
    "openssl",
    "runc",
    "tini",
)


def missing(wanted: Iterable[str]) -> list[str]:
    """Return the packages that are not installed. Raises ClusterError on a system without dpkg."""
    if not shutil.which("dpkg-query"):
        raise ClusterError(
            "this is not Debian (there is no dpkg-query): the embedded cluster needs Debian 12 or a relative"
        )
    listed = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${binary:Package} ${db:Status-Status}\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    installed = {
        name.split(":")[0]
        for name, _, status in (line.partition(" ") for line in listed.splitlines())
        if status == "installed"
    }
    return sorted(set(wanted) - installed)


def ensure(wanted: Iterable[str] = CLUSTER) -> None:
    """Install what is missing. Raises ClusterError when that needs a root user, or when apt-get fails."""
    absent = missing(wanted)
    if not absent:
        return
    command = f"apt-get install -y --no-install-recommends {' '.join(absent)}"
    if os.geteuid() != 0:
        raise ClusterError(f"Debian packages are missing; as root run: apt-get update && {command}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    lock = ["-o", "DPkg::Lock::Timeout=300"]
    with step(f"Debian packages: {' '.join(absent)}"):
        hint = "Debian packages could not be installed (is there a network, and a Debian 12 package source?)"
        run(["apt-get", *lock, "update"], failure=hint, environment=environment, timeout=600)
        install = ["apt-get", *lock, "install", "-y", "--no-install-recommends", *absent]
        run(install, failure=hint, environment=environment, timeout=1200)
