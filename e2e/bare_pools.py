"""Pools on an API without nodes and controllers: what the operator makes of them is all there is."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.waiting import NotYet, wait_until

from bare_api import BareApi
from scratch import Scratch

SOON = 20
"""Seconds in which the resync that comes by itself, every 300, finds nothing out by chance."""
CHILD = "pool-engine"
"""Name of the children of a pool named `pool`."""


@contextmanager
def idle_pool(api: BareApi, title: str, replicas: int = 1) -> Iterator[Scratch]:
    """A namespace named after a test with a pool `pool` whose children are there.

    A pool that has no slice is looked at every ten seconds; one of no replicas only when something tells of it, and every 300.
    """
    name = re.sub(r"[^a-z0-9]+", "-", title.lower().removeprefix("test_"))[-40:].strip("-")
    made = Scratch(api.cluster, name, "engine:1", Path("/models"))
    made.create()
    made.profile()
    made.pool(replicas=replicas)
    wait_for_child(made, replicas=replicas)
    yield made
    # Nothing takes the children away here, nor the namespace.
    made.cluster.kubectl("delete", "wspool", "--all", "-n", name)
    made.cluster.kubectl("delete", "wsprof", name)


def wait_for_child(
    scratch: Scratch, kind: str = "deployment", name: str = CHILD, but: str = "", replicas: int | None = None
) -> str:
    """Return the UID of a child once it is there, is another one than `but` and has that size, if one is given."""

    def look() -> str:
        found = scratch.cluster.find(kind, name, scratch.namespace)
        if found is None or found["metadata"]["uid"] == but:
            raise NotYet("it is not there" if found is None else "the old one is still there")
        if replicas is not None and found["spec"]["replicas"] != replicas:
            raise NotYet(f"it has {found['spec']['replicas']} replicas")
        return str(found["metadata"]["uid"])

    return wait_until(f"the {kind} {scratch.namespace}/{name}", look, seconds=SOON, every=0.3)
