"""The router of this checkout with its request path compiled, as its image has it, for tests and benches outside of containers.

`python -m workslice_cluster.compiled_router COMMAND ...` runs a command in which `import workslice_router` finds it. It is made anew only
when the sources have changed.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from workslice_cluster import debian_packages
from workslice_cluster.cache_entry import keep_newest, made_once
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.content_hash import content_hash, source_files
from workslice_cluster.progress import step
from workslice_cluster.repository import repository

KEPT = 3


def ensure() -> Path:
    """Return the folder. Raises ClusterError when there is no C compiler and none can be installed, or when the build fails."""
    root = repository()
    sources = [*source_files(root / "router/workslice_router"), *source_files(root / "crds/workslice_api")]
    compiler = [root / "uv.lock"]
    version = content_hash([*sources, *compiler], root=root, also=[sys.version])
    folder = cache_folder() / "compiled-router" / version
    made_once(folder, version, _compile)
    keep_newest(folder.parent.iterdir(), KEPT)
    return folder


def _compile(folder: Path) -> None:
    if shutil.which("gcc") is None:
        debian_packages.ensure(("gcc", "libc6-dev"))
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        debian_packages.ensure(("python3.11-dev",))
    command = [sys.executable, "-m", "workslice_router.compile_request_path", str(folder)]
    with step("router's request path compiled"):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"the router's request path could not be compiled:\n{(done.stdout + done.stderr)[-4000:]}")


def main(command: list[str]) -> None:
    """Become the command. Raises ClusterError when there is none, or no compiled router."""
    if not command:
        raise ClusterError("usage: python -m workslice_cluster.compiled_router COMMAND ...")
    os.execvpe(command[0], command, {**os.environ, "PYTHONPATH": str(ensure())})


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ClusterError as error:
        sys.exit(f"error: {error}")
