"""Lets only one command at a time change a cluster."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.instance import Instance
from workslice_cluster.progress import say


@contextmanager
def cluster_lock(instance: Instance, patience: float = 1800) -> Iterator[None]:
    """Hold the cluster's lock; wait up to `patience` seconds for another command. Raises ClusterError that names it.

    The kernel lets go of the lock when its holder dies, however it dies.
    """
    instance.lock.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + patience
    with instance.lock.open("a+") as file:
        told = 0.0
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                file.seek(0)
                holder = file.read().strip() or "unknown"
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"process {holder} has been changing the cluster for {patience:.0f} s: end it"
                    ) from None
                if time.monotonic() - told > 15:
                    told = time.monotonic()
                    say(f"waiting for process {holder}, which is changing the cluster")
                time.sleep(0.2)
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
