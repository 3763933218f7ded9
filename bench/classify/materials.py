"""Fetches what the benchmark reads, once, into the cache: pinned packages from PyPI, and manuals in four languages from Debian."""

import shutil
import subprocess
import sys
from pathlib import Path

from workslice_cluster.cache_entry import made_once
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.content_hash import content_hash
from workslice_cluster.debian_tree import download

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
MANUALS = (
    *(f"libreoffice-help-{language}" for language in ("en-us", "zh-cn", "ja", "ko")),
    *(f"debian-reference-{language}" for language in ("en", "zh-cn", "zh-tw", "ja")),
)


def materials() -> Path:
    """A folder with `packages` (for sys.path) and `manuals` (a folder of HTML pages for each Debian package)."""
    inputs = content_hash([REQUIREMENTS, Path(__file__)], root=REQUIREMENTS.parent)
    return made_once(cache_folder() / "bench-classify", inputs, _fetch)


def _fetch(folder: Path) -> None:
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*uv, "--target", str(folder / "packages"), "-r", str(REQUIREMENTS)], check=True)
    debs = folder / "debs"
    download(MANUALS, debs, folder / "apt.log")
    (folder / "manuals").mkdir()
    for deb in debs.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", deb, folder / "manuals" / deb.name.partition("_")[0]], check=True)
    shutil.rmtree(debs)
