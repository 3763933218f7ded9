"""Deleting a pool, or its whole namespace, lets running requests finish within drain.timeout and leaves nothing behind."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import openai
import pytest
from demo.question import Answer, ask
from demo.waiting import NotYet, wait_until

from installed import Installation
from scratch import Scratch

DRAIN_SECONDS = 60
TOKENS = 4000
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


class LongStreams:
    """Several streamed answers that run while something is deleted."""

    def __init__(self, pools: Installation, model: str) -> None:
        self._workers = ThreadPoolExecutor(STREAMS)
        self._pools, self._model = pools, model
        self._results: list[Future[Answer]] = [self._workers.submit(self._one, n) for n in range(STREAMS)]

    def _one(self, number: int) -> Answer:
        options = {"extra_body": {"ignore_eos": True}}
        return ask(self._pools.client(), self._model, f"Count {number}", stream=True, max_tokens=TOKENS, **options)

    def running(self) -> int:
        """How many have not ended."""
        return sum(not result.done() for result in self._results)

    def answers(self) -> list[Answer]:
        """All answers, when they have ended."""
        return [result.result(timeout=DRAIN_SECONDS + 60) for result in self._results]


def streams_that_run(pools: Installation, model: str) -> LongStreams:
    streams = LongStreams(pools, model)
    threading.Event().wait(1.0)  # long enough for all of them to have tokens, far shorter than the answers
    assert streams.running() == STREAMS
    return streams


def all_complete(answers: list[Answer]) -> bool:
    return [(a.completion_tokens, a.finish_reason) for a in answers] == [(TOKENS, "length")] * STREAMS


def children_of(scratch: Scratch, pool: str) -> list[str]:
    text = scratch.cluster.kubectl(
        *("get", "deployments,services,endpointslices,poddisruptionbudgets,networkpolicies,pods", "-o", "name"),
        *("-n", scratch.namespace, "-l", f"workslice.dev/pool={pool}"),
    )
    return text.split()


def test_deleting_a_pool_lets_its_requests_finish_and_takes_its_children(
    pools: Installation, two_pools: Scratch
) -> None:
    streams = streams_that_run(pools, "drain-first")
    deleted = time.monotonic()
    two_pools.cluster.kubectl("delete", "wspool", "first", "-n", two_pools.namespace, "--timeout=20s")
    assert streams.running() > 0, "the answers were too short for this test: raise TOKENS"
    assert all_complete(streams.answers())

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
    streams = streams_that_run(pools, "drain-second")
    two_pools.cluster.kubectl("delete", "namespace", two_pools.namespace, "--wait=false")
    assert all_complete(streams.answers())

    def gone() -> None:
        if two_pools.cluster.find("namespace", two_pools.namespace):
            raise NotYet("the namespace is still there")

    wait_until("the namespace to go", gone, seconds=DRAIN_SECONDS + 30)
