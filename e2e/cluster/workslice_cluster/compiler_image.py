"""A stand-in for docker.io/library/python:3.11-bookworm, of which builds need only what the slim one lacks: a C compiler and headers."""

from pathlib import Path
from tempfile import TemporaryDirectory

from workslice_cluster import base_image, buildah, debian_packages
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.content_hash import content_hash
from workslice_cluster.debian_tree import download, unpack
from workslice_cluster.progress import step

COMPILER = (
    "gcc gcc-12 gcc-12-base cpp cpp-12 binutils binutils-common binutils-x86-64-linux-gnu libbinutils libctf0 libctf-nobfd0 "
    "libgprofng0 libjansson4 libcc1-0 libgcc-12-dev libgomp1 libitm1 libatomic1 libquadmath0 libisl23 libmpc3 libmpfr6 libgmp10 libzstd1"
)
HEADERS = "libc6-dev libc-dev-bin linux-libc-dev libcrypt-dev libpython3.11-dev python3.11-dev libexpat1-dev zlib1g-dev"
PACKAGES = tuple(f"{COMPILER} {HEADERS}".split())


def reference() -> str:
    """Return the image's name; its tag is the hash of this recipe and of the base image's."""
    recipe = Path(__file__)
    return f"localhost/workslice/compiler:{content_hash([recipe], root=recipe.parent, also=[base_image.reference()])}"


def ensure() -> str:
    """Make the image in the build storage unless it is there; return its name. Raises ClusterError when a step fails."""
    name = reference()
    if not buildah.has(name):
        base = base_image.ensure()
        debian_packages.ensure(("buildah",))
        folder = cache_folder() / "scratch"
        folder.mkdir(parents=True, exist_ok=True)
        with step("C compiler for images from Debian packages"), TemporaryDirectory(dir=folder) as scratch:
            debs, root = Path(scratch, "debs"), Path(scratch, "root")
            root.mkdir(mode=0o755)
            download(PACKAGES, debs, cache_folder() / "log" / "compiler-image.log")
            unpack(sorted(debs.glob("*.deb")), root)
            buildah.commit_root(root, name, base=base)
    return name
