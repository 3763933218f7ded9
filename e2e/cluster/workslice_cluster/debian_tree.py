"""Unpacks Debian packages into a folder that becomes a container's root."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.watched_command import run_watched

MERGED = ("bin", "sbin", "lib", "lib64")  # since Debian 12 these are links into /usr


def download(packages: Sequence[str], folder: Path, log: Path) -> None:
    """Fetch the packages as .deb files. Raises ClusterError when the package source lacks one or cannot be reached."""
    folder.mkdir(parents=True, exist_ok=True)
    hint = "Debian packages could not be downloaded (is there a network, and a Debian 12 package source?)"
    run(["apt-get", "-o", "DPkg::Lock::Timeout=300", "update"], failure=hint, timeout=600)
    # apt-get drops its rights to a user that cannot write below a private home folder; the files are root's own here.
    script = 'cd "$1" && shift && exec apt-get -o APT::Sandbox::User=root download "$@"'
    run_watched(
        ["sh", "-c", script, "sh", folder, *packages], title="Debian packages", failure=hint, log=log, timeout=900
    )


def unpack(debs: Sequence[Path], root: Path) -> None:
    """Unpack .deb files into `root`, an empty folder; their scripts do not run. Raises ClusterError for a damaged file."""
    for link in MERGED:
        (root / "usr" / link).mkdir(parents=True)
        (root / link).symlink_to(f"usr/{link}")
    for deb in debs:
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as archive:
            target = ["--directory", str(root), "--keep-directory-symlink"]
            unpacked = subprocess.run(["tar", "--extract", *target], stdin=archive.stdout, check=False)
        if archive.returncode or unpacked.returncode:
            raise ClusterError(f"{deb.name} could not be unpacked: delete {deb.parent} and try again")
    for unread in ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian"):
        shutil.rmtree(root / unread, ignore_errors=True)
