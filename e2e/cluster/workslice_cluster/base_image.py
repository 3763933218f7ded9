"""A stand-in for docker.io/library/python:3.11-slim-bookworm, made of Debian's packages where no registry can be reached.

It has what the repository's Dockerfiles take from the original: `python`, `pip`, a shell and the usual programs, and also the
libraries that images/vllm/Dockerfile would install by apt-get.
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from workslice_cluster import buildah, debian_packages
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.commands import run
from workslice_cluster.content_hash import content_hash
from workslice_cluster.debian_tree import download, unpack
from workslice_cluster.progress import step

PYTHON = (
    "python3.11 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib python3-pip python3-wheel python3-setuptools "
    "python3-pkg-resources python3-distutils"
)
LIBRARIES = (
    "libc6 libc-bin libgcc-s1 libstdc++6 libssl3 zlib1g libexpat1 libffi8 libbz2-1.0 liblzma5 libuuid1 libcrypt1 libsqlite3-0 "
    "libncursesw6 libtinfo6 libreadline8 libdb5.3 libnsl2 libtirpc3 libgssapi-krb5-2 libkrb5-3 libk5crypto3 "
    "libkrb5support0 libcom-err2 libkeyutils1"
)
ENGINE = "util-linux libsmartcols1 libmount1 libblkid1 libselinux1 libpcre2-8-0 libudev1 libcap-ng0 libnuma1 tini"
SYSTEM = "base-files netbase ca-certificates busybox-static tzdata media-types"
PACKAGES = tuple(f"{PYTHON} {LIBRARIES} {ENGINE} {SYSTEM}".split())
CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")
USERS = "root:x:0:0:root:/root:/bin/sh\nnonroot:x:65532:65532:nonroot:/tmp:/bin/sh\n"
GROUPS = "root:x:0:\nnonroot:x:65532:\n"


def reference() -> str:
    """Return the image's name: its tag is the hash of the recipe, so the packages stay as they were when it was made."""
    recipe = Path(__file__)
    tree = recipe.with_name("debian_tree.py")
    return f"localhost/workslice/python:{content_hash([recipe, tree], root=recipe.parent)}"


def ensure() -> str:
    """Make the image in the build storage unless it is there; return its name. Raises ClusterError when a step fails."""
    name = reference()
    if not buildah.has(name):
        debian_packages.ensure(("buildah",))
        with step("Python base image from Debian packages"), TemporaryDirectory(dir=_scratch()) as scratch:
            debs, root = Path(scratch, "debs"), Path(scratch, "root")
            root.mkdir(mode=0o755)
            download(PACKAGES, debs, cache_folder() / "log" / "base-image.log")
            unpack(sorted(debs.glob("*.deb")), root)
            _complete(root)
            buildah.commit_root(root, name)
    return name


def _complete(root: Path) -> None:
    """Do what the packages' own scripts would have done."""
    for temporary in ("tmp", "var/tmp"):
        (root / temporary).mkdir(parents=True, exist_ok=True)
        (root / temporary).chmod(0o1777)
    for folder in ("proc", "sys", "dev", "run", "etc", "root"):
        (root / folder).mkdir(exist_ok=True)
    (root / "etc/passwd").write_text(USERS)
    (root / "etc/group").write_text(GROUPS)
    (root / "usr/bin/python3").symlink_to("python3.11")
    (root / "usr/bin/python").symlink_to("python3.11")
    # The original has a Python of its own; Debian's refuses pip unless this file is away.
    (root / "usr/lib/python3.11/EXTERNALLY-MANAGED").unlink()
    _trust_what_this_machine_trusts(root)
    inside = ["chroot", root]
    failure = "the Python base image could not be completed"
    run([*inside, "/bin/busybox", "--install", "-s"], failure=failure)
    run([*inside, "/sbin/ldconfig"], failure=failure)
    # Without byte code every start of a container would compile the standard library again.
    compile_all = [*inside, "/usr/bin/python3.11", "-m", "compileall", "-q", "-x", "lib2to3|test"]
    run([*compile_all, "/usr/lib/python3.11", "/usr/lib/python3/dist-packages"], failure=failure, timeout=300)


def _trust_what_this_machine_trusts(root: Path) -> None:
    """Give builds the machine's certificates: it may reach the package registries through a proxy of its own."""
    bundle = root / CERTIFICATES
    bundle.parent.mkdir(parents=True, exist_ok=True)
    of_this_machine = Path("/", CERTIFICATES)
    if of_this_machine.is_file():
        shutil.copyfile(of_this_machine, bundle)
    else:
        authorities = sorted((root / "usr/share/ca-certificates/mozilla").glob("*.crt"))
        bundle.write_text("\n".join(authority.read_text() for authority in authorities))


def _scratch() -> Path:
    folder = cache_folder() / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
