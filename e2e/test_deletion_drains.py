"""Deleting a pool, or its whole namespace, lets running requests finish within drain.timeout and leaves nothing behind."""

import time

import openai
import pytest
from demo.question import ask
from demo.waiting import NotYet, wait_until

from installed import Installation
from long_streams import LongStreams
from router_accounts import wait_until_running
from scratch import Scratch

DRAIN_SECONDS = 30
"""Kubernetes looks at a namespace that it deletes again after half the time that its pods were given: the shorter, the sooner."""
TOKENS = 2500
STREAMS = 4


@pytest.fixture(scope="module")
def two_pools(module_scratch: Scratch) -> Scratch:
    """A pool to delete, and one that goes with its namespace; their engines start side by side."""
    module_scratch.profile(slice_profile="1g.10gb")
    for name in ("first", "second"):
        module_scratch.pool(name, model=f"drain-{name}", drain={"timeout": f"{DRAIN_SECONDS}s"})
    for name in ("first", "second"):
        module_scratch.wait_for("Ready", "True", "PoolReady", pool=name, seconds=240)
    return module_scratch


def streams_that_run(pools: Installation, two_pools: Scratch, pool: str) -> LongStreams:
    streams = LongStreams(pools.client(), f"drain-{pool}", count=STREAMS, tokens=TOKENS)
    wait_until_running(pools.cluster, f"{two_pools.namespace}/{pool}", STREAMS)
    assert streams.running() == STREAMS
    return streams


def children_of(scratch: Scratch, pool: str) -> list[str]:
    text = scratch.cluster.kubectl(
        *("get", "deployments,services,endpointslices,poddisruptionbudgets,networkpolicies,pods", "-o", "name"),
        *("-n", scratch.namespace, "-l", f"workslice.dev/pool={pool}"),
    )
    return text.split()


def test_deleting_a_pool_lets_its_requests_finish_and_takes_its_children(
    pools: Installation, two_pools: Scratch
) -> None:
    streams = streams_that_run(pools, two_pools, "first")
    deleted = time.monotonic()
    two_pools.cluster.kubectl("delete", "wspool", "first", "-n", two_pools.namespace, "--timeout=20s")
    assert streams.running() > 0, "the answers were too short for this test: raise TOKENS"
    assert streams.complete(streams.answers(DRAIN_SECONDS + 60))

    def gone() -> None:
        if left := children_of(two_pools, "first"):
            raise NotYet(", ".join(left))

    wait_until("the pool's children to go", gone, seconds=DRAIN_SECONDS + 30)
    assert time.monotonic() - deleted < DRAIN_SECONDS + 30
    with pytest.raises(openai.NotFoundError):
        ask(pools.client(), "drain-first", "Are you there?", stream=False)


def test_deleting_a_namespace_lets_its_requests_finish_and_nothing_hangs(
    pools: Installation, two_pools: Scratch
) -> None:
    streams = streams_that_run(pools, two_pools, "second")
    two_pools.cluster.kubectl("delete", "namespace", two_pools.namespace, "--wait=false")
    assert streams.complete(streams.answers(DRAIN_SECONDS + 60))

    def gone() -> None:
        if two_pools.cluster.find("namespace", two_pools.namespace):
            raise NotYet("the namespace is still there")

    wait_until("the namespace to go", gone, seconds=DRAIN_SECONDS + 30)
