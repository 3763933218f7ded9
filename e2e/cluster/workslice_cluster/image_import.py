"""Imports OCI archives into a node's containerd, where pods find them without a registry."""

import json
import tarfile
from pathlib import Path

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.configuration_files import CONTAINERD_SOCKET
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
    """Import an archive unless the node with this init has its very images, and return their references."""
    wanted = names_in(archive)
    listed = run(inside(init, _containerd("images", "list")), failure="containerd does not list its images")
    present = {tuple(line.split()[0:3:2]) for line in listed.splitlines()[1:]}
    if not {(name, digest) for name, digest in wanted.items()} <= present:
        command = _containerd("images", "import", str(archive.absolute()))
        run(inside(init, command), failure=f"{archive} could not be imported", timeout=600)
    return list(wanted)


def copy(source: int, target: int, archive: Path) -> None:
    """Bring the images of one node (by its init) to another one by way of a temporary archive, unless it has them."""
    names, present = _names(source), _names(target)
    if not names <= present:
        failure = "images could not be copied to the node"
        try:
            export = _containerd("images", "export", str(archive), *sorted(names - present))
            run(inside(source, export), failure=failure, timeout=600)
            run(inside(target, _containerd("images", "import", str(archive))), failure=failure, timeout=600)
        finally:
            archive.unlink(missing_ok=True)


def _names(init: int) -> set[str]:
    listed = run(inside(init, _containerd("images", "list", "-q")), failure="containerd does not list its images")
    # The kubelet's runtime names every image by its digest as well, and does so again by itself.
    return {name for name in listed.split() if not name.startswith("sha256:")}


def containerd_answers(init: int) -> bool:
    """Say whether the containerd of the node with this init answers."""
    try:
        run(inside(init, _containerd("version")), failure="containerd does not answer", timeout=10)
    except ClusterError:
        return False
    return True


def _containerd(*words: str) -> list[str]:
    """Return a `ctr` command in the kubelet's image namespace, to be run inside a node."""
    return ["ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", *words]
