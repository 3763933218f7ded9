"""buildah with a storage of its own below the cache folder: builds, names, exports and removes images."""

from collections.abc import Mapping
from pathlib import Path

from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.commands import run
from workslice_cluster.watched_command import run_watched


def has(name: str) -> bool:
    """Say whether the storage holds an image of that name."""
    return storage().is_dir() and name in _names()


def build(
    name: str, *, dockerfile: Path, context: Path, title: str, arguments: Mapping[str, str], target: str | None = None
) -> None:
    """Build an image; unchanged steps come from the storage. Raises ClusterError with the build's last words."""
    # chroot: plain user namespaces and cgroups are not to be had on every machine, and the steps need a network.
    options = ["--isolation=chroot", "--layers", "--pull-never", "--format=oci", f"--tag={name}"]
    options += [f"--build-arg={key}={value}" for key, value in arguments.items()]
    options += [f"--target={target}"] if target else []
    run_watched(
        [*_buildah(), "bud", *options, "--file", dockerfile, context],
        title=title,
        failure=f"the image of {dockerfile.parent.name} could not be built",
        log=cache_folder() / "log" / f"image-{dockerfile.parent.name}.log",
    )


def commit_root(root: Path, name: str, *, base: str = "scratch") -> None:
    """Make an image out of a folder: one layer, on top of those of `base`."""
    failure = f"{name} could not be committed"
    container = run([*_buildah(), "from", "--pull-never", base], failure=failure).strip()
    try:
        run([*_buildah(), "copy", "--quiet", container, root, "/"], failure=failure, timeout=600)
        settings = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
        variables = [f"--env={key}={value}" for key, value in settings.items()]
        run([*_buildah(), "config", *variables, "--cmd", "python", container], failure=failure)
        run([*_buildah(), "commit", "--quiet", "--format=oci", container, name], failure=failure, timeout=600)
    finally:
        run([*_buildah(), "rm", container], failure=failure)


def export(name: str, archive: Path) -> None:
    """Write the image as an OCI archive that carries its name."""
    failure = f"{name} could not be written to {archive}"
    run([*_buildah(), "push", "--quiet", name, f"oci-archive:{archive}:{name}"], failure=failure, timeout=900)


def remove_others(name: str) -> None:
    """Remove the images of the same repository with another tag; layers that are still used stay."""
    repository = name.rpartition(":")[0]
    for other in _names():
        if other != name and other.rpartition(":")[0] == repository:
            run([*_buildah(), "rmi", "--force", other], failure=f"{other} could not be removed")


def storage() -> Path:
    """Return the folder of buildah's storage."""
    return cache_folder() / "buildah"


def _names() -> list[str]:
    listed = run([*_buildah(), "images", "--format", "{{.Name}}:{{.Tag}}"], failure="images could not be listed")
    return listed.split()


def _buildah() -> list[str | Path]:
    return ["buildah", "--root", storage(), "--runroot", storage() / "run", "--storage-driver", "overlay"]
