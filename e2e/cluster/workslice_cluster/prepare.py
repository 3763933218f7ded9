"""Installs and builds everything the cluster is made of, without starting it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workslice_cluster import binaries, client_tools, debian_packages, pause_image


@dataclass(frozen=True)
class Parts:
    """Where the finished parts lie."""

    binaries: Mapping[str, Path]
    kubectl: Path
    helm: Path
    pause_archive: Path


def prepare(cache: Path) -> Parts:
    """Make what is missing. Raises ClusterError that says what could not be made."""
    debian_packages.ensure()
    built = binaries.ensure(cache)
    tools = client_tools.ensure(cache)
    return Parts(built, tools["kubectl"], tools["helm"], pause_image.ensure(built["pause"]))
