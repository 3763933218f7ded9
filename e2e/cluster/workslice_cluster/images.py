"""Builds the repository's images from its own Dockerfiles and keeps each as an OCI archive in the cache.

`python -m workslice_cluster.images build [operator|router|vllm|device-plugin ...]` builds the named images, or all.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from workslice_cluster import base_image, buildah, compiler_image, debian_packages
from workslice_cluster.cache_entry import keep_newest, made_once
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.image_inputs import IMAGES, Image, export_command, tag
from workslice_cluster.progress import say, step
from workslice_cluster.python_installer import uv, uv_environment
from workslice_cluster.repository import repository

KEPT = 2  # archives of each image: the one in use and the one before, for rollbacks


def ensure(name: str) -> tuple[Path, str]:
    """Return the image's OCI archive and the name it carries; build it unless its inputs were built before.

    Raises ClusterError for an unknown name, and with the build's last words when a step fails.
    """
    if name not in IMAGES:
        raise ClusterError(f"there is no image {name!r}; there are: {', '.join(IMAGES)}")
    image = IMAGES[name]
    version = _version(image)
    reference = f"localhost/workslice/{name}:{version}"
    folder = cache_folder() / "images" / version
    archive = f"{name}.oci.tar"

    def make(unfinished: Path) -> None:
        debian_packages.ensure(("buildah",))
        _build(image, reference)
        if _version(image) != version:
            raise ClusterError(f"the sources of image {name} changed while it was built: run the command again")
        buildah.export(reference, unfinished / archive)
        buildah.remove_others(reference)

    made_once(folder, version, make)
    keep_newest((other.parent for other in folder.parent.glob(f"*/{archive}")), KEPT)
    return folder / archive, reference


def requirements(packages: Sequence[str]) -> str:
    """Return the locked packages of these options as pip reads them; nothing for an image without any."""
    if not packages:
        return ""
    command = [*export_command(uv(), packages), f"--project={repository()}"]
    return run(command, failure="the locked packages could not be listed", environment=uv_environment())


def _version(image: Image) -> str:
    base, locked = base_image.reference(), requirements(image.packages)
    if image.compiler:
        base, locked = compiler_image.reference(), locked + requirements(image.compiler)
    return tag(image, repository=repository(), base=base, requirements=locked)


def _build(image: Image, reference: str) -> None:
    arguments = {"PYTHON_IMAGE": base_image.ensure()}
    if image.compiler:
        arguments["COMPILER_IMAGE"] = compiler_image.ensure()
    title = f"image {image.name}"
    with step(title):
        buildah.build(
            reference,
            dockerfile=repository() / "images" / image.name / "Dockerfile",
            context=repository(),
            title=title,
            arguments=arguments,
            target=image.target,
        )


def main(arguments: list[str]) -> None:
    """Build the named images, or all. Raises ClusterError when the words are not understood or a build fails."""
    if arguments[:1] != ["build"]:
        raise ClusterError(f"usage: python -m workslice_cluster.images build [{'|'.join(IMAGES)} ...]")
    for name in arguments[1:] or IMAGES:
        archive, reference = ensure(name)
        say(f"{reference} in {archive} ({archive.stat().st_size / 1e6:.0f} MB)")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ClusterError as error:
        sys.exit(f"error: {error}")
