"""Imports OCI archives into the cluster's containerd, where pods find them without a registry."""

import json
import tarfile
from pathlib import Path

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.components import containerd_command
from workslice_cluster.namespaces import inside


def names_in(archive: Path) -> dict[str, str]:
    """Return image reference to manifest digest of an OCI archive. Raises ClusterError when it is none."""
    try:
        with tarfile.open(archive) as content:
            index = content.extractfile("index.json")
            manifests = json.load(index)["manifests"] if index else []
    except FileNotFoundError as error:
        raise ClusterError(f"{archive} does not exist") from error
    except (tarfile.TarError, KeyError, json.JSONDecodeError) as error:
        raise ClusterError(f"{archive} is not an OCI archive: {error}") from error
    found = {}
    for manifest in manifests:
        annotations = manifest.get("annotations", {})
        name = annotations.get("io.containerd.image.name") or annotations.get("org.opencontainers.image.ref.name")
        if name:
            found[name] = manifest["digest"]
    if not found:
        raise ClusterError(f"{archive} names no image: write it with `buildah push NAME oci-archive:FILE:REFERENCE`")
    return found


def load(init: int, archive: Path) -> list[str]:
    """Import an archive unless the cluster has its very images, and return their references."""
    wanted = names_in(archive)
    listed = run(inside(init, containerd_command("images", "list")), failure="containerd does not list its images")
    present = {tuple(line.split()[0:3:2]) for line in listed.splitlines()[1:]}
    if not {(name, digest) for name, digest in wanted.items()} <= present:
        command = containerd_command("images", "import", str(archive.absolute()))
        run(inside(init, command), failure=f"{archive} could not be imported", timeout=600)
    return list(wanted)


def containerd_answers(init: int) -> bool:
    """Say whether the cluster's containerd answers."""
    try:
        run(inside(init, containerd_command("version")), failure="containerd does not answer", timeout=10)
    except ClusterError:
        return False
    return True
