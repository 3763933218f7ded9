"""Cluster, installation and the examples' pools, brought up in a process of its own while the unit tests run, which come first.

The fixtures do the same again: they find most of it done, and say what is wrong when it is not.
"""

import fcntl
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the demo's code

from demo.example_manifests import apply_examples, example_manifests
from demo.installation import models_directory, start_cluster

from installed import MODEL, install
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.instance import from_environment


def begin() -> "subprocess.Popen[bytes]":
    """Start to bring it up; what is said on the way goes into a log, and a lock is held until it is done."""
    log = cache_folder() / "log" / "brought-up-ahead.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output, _lock().open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the process inherits it, its own processes do not; its end lets go of it
        return subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[lock.fileno()],
        )


def wait() -> None:
    """Return when nobody brings it up any more, whichever process began it: with several workers it is not the one that waits."""
    with _lock().open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)


def _lock() -> Path:
    state = from_environment().state
    state.parent.mkdir(parents=True, exist_ok=True)
    return state.with_name(state.name + ".ahead.lock")


def main() -> None:
    folder = models_directory(MODEL)
    cluster = start_cluster()
    installation = install(cluster)
    apply_examples(cluster, example_manifests(installation.images.engine, folder, MODEL), MODEL)


if __name__ == "__main__":
    main()
