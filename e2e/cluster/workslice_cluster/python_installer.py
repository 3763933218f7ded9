"""The uv that belongs to the project's environment, and its cache below the cluster tool's own."""

import os
import shutil
import sys
from pathlib import Path

from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.cluster_error import ClusterError


def uv() -> Path:
    """Return the uv program: the environment's own, else the one on PATH. Raises ClusterError when there is none."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if not found:
        raise ClusterError("uv is not installed: run `make setup`, then use the Python of .venv")
    return Path(found)


def uv_environment() -> dict[str, str]:
    """Return the process environment for uv: packages cached for the next build, no Python fetched from elsewhere."""
    return {
        **os.environ,
        "UV_CACHE_DIR": str(cache_folder() / "uv"),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_HTTP_TIMEOUT": "180",
        "UV_NO_PROGRESS": "1",
    }
