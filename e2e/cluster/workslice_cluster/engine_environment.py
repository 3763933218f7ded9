"""The CPU build of vLLM as a Python environment in the cache: made once for each lock, then mounted into engine pods."""

import os
import shutil
from pathlib import Path

from workslice_cluster.cache_entry import keep_newest, made_once
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.content_hash import content_hash
from workslice_cluster.progress import say, step
from workslice_cluster.python_installer import uv, uv_environment
from workslice_cluster.repository import repository
from workslice_cluster.watched_command import run_watched

PYTHON = "3.11"  # the engine image's Python: compiled packages and byte code must fit it
NEEDED_BYTES = 7 * 10**9  # 5.1 GB of packages, and room for what is being unpacked


def folder() -> Path:
    """Return where the environment for this checkout's lock is, or will be."""
    inputs = repository() / "images" / "vllm"
    name = content_hash([inputs / "cpu.lock", inputs / "shim" / "pyproject.toml"], root=inputs, also=[PYTHON])
    return cache_folder() / "engine-environment" / name


def site_packages() -> Path:
    """Return the folder to mount at /opt/vllm in an engine container; `ensure` makes it."""
    return folder() / "lib" / f"python{PYTHON}" / "site-packages"


def python() -> Path:
    """Return the environment's Python, for scripts that need torch or transformers on this machine."""
    return folder() / "bin" / "python"


def ensure() -> Path:
    """Make the environment unless it is there; return its folder.

    Downloads 2.7 GB the first time. Raises ClusterError without Python 3.11, network or room.
    """
    environment = folder()
    made_once(environment, environment.name, _make)
    keep_newest(environment.parent.iterdir(), count=2)
    return environment


def _make(environment: Path) -> None:
    free = shutil.disk_usage(environment).free
    if free < NEEDED_BYTES:
        raise ClusterError(
            f"the CPU vLLM environment needs {NEEDED_BYTES / 1e9:.0f} GB in {environment.parent}, where {free / 1e9:.1f} GB "
            "are free: make room, or name another folder in WORKSLICE_CACHE"
        )
    inputs = repository() / "images" / "vllm"
    logs = cache_folder() / "log"
    options = uv_environment()
    with step("CPU vLLM environment (downloads 2.7 GB the first time, 5.1 GB on disk)"):
        hint = f"the CPU vLLM environment could not be made: it needs Python {PYTHON} (Debian: python3.11-venv)"
        run(
            [uv(), "venv", "--clear", "--relocatable", "--python", PYTHON, environment],
            failure=hint,
            environment=options,
        )
        interpreter = environment / "bin" / "python"
        install: list[str | Path] = [uv(), "pip", "install", "--python", interpreter, "--no-deps", "--compile-bytecode"]
        run_watched(
            # Byte code is part of it: pods mount the packages read-only and would compile them again at every start.
            [*install, "--require-hashes", "--only-binary", ":all:", "--requirement", inputs / "cpu.lock"],
            title="CPU vLLM environment",
            failure="the packages of images/vllm/cpu.lock could not be installed (is there a network?)",
            log=logs / "engine-environment.log",
            environment=options,
        )
        # A build writes into its source folder, so it gets a copy.
        shim = shutil.copytree(inputs / "shim", environment / "shim")
        run(
            [*install, "--no-build-isolation", shim],
            failure="images/vllm/shim could not be installed",
            environment=options,
        )
        shutil.rmtree(shim)
        say(f"vLLM {_check(interpreter)} can be imported")


def _check(interpreter: Path) -> str:
    """Import what a server imports; return vLLM's version. Raises ClusterError with the import's last words."""
    question = "import importlib.metadata, vllm._C, vllm.engine.arg_utils; print(importlib.metadata.version('vllm'))"
    environment = {**os.environ, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
    answer = run(
        [interpreter, "-c", question],
        failure="vLLM was installed but cannot be imported (it needs an x86_64 processor with AVX2)",
        environment=environment,
        timeout=300,
    )
    return answer.split()[-1]


if __name__ == "__main__":
    print(ensure())
