"""Cluster, installation and the examples' pools, brought up in a process of its own while the unit tests run, which come first.

The fixtures do the same again: they find most of it done, and say what is wrong when it is not.
"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the demo's code

from demo.example_manifests import apply_examples, example_manifests
from demo.installation import models_directory, start_cluster

from installed import MODEL, install
from workslice_cluster.cache_folder import cache_folder


def begin() -> "subprocess.Popen[bytes]":
    """Start to bring it up; what is said on the way goes into a log."""
    log = cache_folder() / "log" / "brought-up-ahead.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def main() -> None:
    folder = models_directory(MODEL)
    cluster = start_cluster()
    installation = install(cluster)
    apply_examples(cluster, example_manifests(installation.images.engine, folder, MODEL), MODEL)


if __name__ == "__main__":
    main()
