"""A scale-down loses nothing: streams of more than a minute finish, a replica can be called back, and one that never ends is told so."""

import time
from concurrent.futures import Future, ThreadPoolExecutor

import openai
import pytest
from demo.question import Answer, ask
from demo.waiting import NotYet, wait_until

from installed import Installation
from router_accounts import router_states
from scratch import Scratch

PATIENT_SECONDS = 240
IMPATIENT_SECONDS = 5
MINUTE = 60
CONTEXT = 8000
"""Tokens of the longest answer that fits the tiny model."""
SLOW = "200m"
"""CPU limit under which an engine needs more than a minute for such an answer."""


@pytest.fixture(scope="module")
def pool(module_scratch: Scratch) -> Scratch:
    """A pool of two slow replicas, and one that will find its slice when they have become one."""
    module_scratch.profile(slice_profile="1g.10gb")
    module_scratch.pool("patient", model="drain-patient", replicas=2, drain={"timeout": f"{PATIENT_SECONDS}s"})
    module_scratch.wait_for("Ready", "True", "PoolReady", pool="patient", seconds=240)
    slow_down(module_scratch, "patient")
    module_scratch.pool("impatient", model="drain-impatient", drain={"timeout": f"{IMPATIENT_SECONDS}s"})
    return module_scratch


def slow_down(scratch: Scratch, pool: str) -> None:
    """Give the pool's running engines little CPU: they have started with all they want and answer slowly from now on."""
    limits = '{"spec":{"containers":[{"name":"engine","resources":{"limits":{"cpu":"' + SLOW + '"}}}]}}'
    for pod in engines(scratch, pool).values():
        scratch.cluster.kubectl("patch", "pod", pod, "-n", scratch.namespace, "--subresource=resize", "-p", limits)


def engines(scratch: Scratch, pool: str) -> dict[str, str]:
    """Names of the pool's pods that are not on their way out, by UID."""
    found = (p["metadata"] for p in scratch.pods() if p["metadata"]["labels"]["workslice.dev/pool"] == pool)
    return {one["uid"]: one["name"] for one in found}


class Streams:
    """Streamed answers that run while a pool changes its size, on as many replicas as there are streams."""

    def __init__(self, installation: Installation, model: str, count: int, tokens: int) -> None:
        self._installation, self._model, self._tokens = installation, model, tokens
        self._workers = ThreadPoolExecutor(count)
        self._results: list[Future[Answer]] = [self._workers.submit(self._one, number) for number in range(count)]

    def _one(self, number: int) -> Answer:
        options = {"extra_body": {"ignore_eos": True}}
        question = f"Count {number}"
        client = self._installation.client()
        return ask(client, self._model, question, stream=True, max_tokens=self._tokens, **options)

    def running(self) -> int:
        return sum(not result.done() for result in self._results)

    def answers(self) -> list[Answer]:
        return [result.result(timeout=PATIENT_SECONDS) for result in self._results]


def started(installation: Installation, scratch: Scratch, pool: str, count: int, tokens: int) -> Streams:
    """Start streams and wait until the routers have them running."""
    streams = Streams(installation, f"drain-{pool}", count, tokens)

    def seen() -> None:
        # The routers themselves: the pool's status shows queue numbers every 30 s only, which short streams may not last.
        states = router_states(installation.cluster).values()
        running = sum(state["pools"][f"{scratch.namespace}/{pool}"]["running"] for state in states)
        if running != count:
            raise NotYet(f"running: {running}")

    wait_until("the streams to run", seen, seconds=60)
    assert streams.running() == count
    return streams


def scale(scratch: Scratch, pool: str, replicas: int) -> None:
    scratch.cluster.kubectl("scale", "wspool", pool, "-n", scratch.namespace, f"--replicas={replicas}")


def asked_to_go(scratch: Scratch, pool: str) -> str:
    """Wait until the pool has asked one of its live replicas to go, and return its pod's UID."""

    def marked() -> str:
        marks = scratch.cluster.get("wspool", pool, scratch.namespace)["status"].get("drainMarks", [])
        if len(marks) != 1:
            raise NotYet(f"marks: {marks}")
        return str(marks[0]["uid"])

    return wait_until("a replica to be asked to go", marked, seconds=30)


def events(scratch: Scratch) -> set[str]:
    return {event["reason"] for event in scratch.cluster.objects("events", scratch.namespace)}


def test_a_replica_that_drains_is_called_back_when_it_is_wanted_again(
    installation: Installation, pool: Scratch
) -> None:
    before = engines(pool, "patient")
    streams = started(installation, pool, "patient", 2, tokens=2500)
    scale(pool, "patient", 1)
    assert asked_to_go(pool, "patient") in before
    pool.wait_for("Draining", "True", "WaitingForRouters", pool="patient")
    scale(pool, "patient", 2)
    pool.wait_for("Draining", "False", "NotDraining", pool="patient")
    assert [answer.finish_reason for answer in streams.answers()] == ["length", "length"]
    assert engines(pool, "patient") == before
    assert "DrainCalledBack" in events(pool)
    again = [ask(installation.client(), "drain-patient", "Back?", stream=False, max_tokens=1) for _ in range(4)]
    assert {answer.replica for answer in again} == set(before), "both take requests again"


def test_streams_of_more_than_a_minute_survive_a_scale_down(installation: Installation, pool: Scratch) -> None:
    before = engines(pool, "patient")
    streams = started(installation, pool, "patient", 2, tokens=CONTEXT)
    scale(pool, "patient", 1)
    victim = asked_to_go(pool, "patient")
    (kept,) = before.keys() - {victim}
    while_it_drains = [
        ask(installation.client(), "drain-patient", f"And {n}?", stream=n % 2 == 0, max_tokens=4) for n in range(6)
    ]
    assert {answer.replica for answer in while_it_drains} == {kept}, "nothing new goes to a replica that drains"
    assert streams.running() == 2, "the answers were too short for this test: lower SLOW"
    assert engines(pool, "patient") == before, "nothing goes while a stream runs"
    answers = streams.answers()
    assert [(answer.completion_tokens, answer.finish_reason) for answer in answers] == [(CONTEXT, "length")] * 2
    assert {answer.replica for answer in answers} == set(before)
    assert min(answer.total for answer in answers) > MINUTE, "the answers were too short for this test: lower SLOW"

    def one_left() -> None:
        if engines(pool, "patient") != {kept: before[kept]}:
            raise NotYet(f"replicas: {engines(pool, 'patient')}")

    wait_until("the replica that drained to go, and no other", one_left, seconds=30)
    assert {"DrainStarted", "ReplicaGone"} <= events(pool)
    assert "DrainTimedOut" not in events(pool)


def test_a_stream_that_outlives_the_drain_timeout_ends_in_an_error_and_not_in_silence(
    installation: Installation, pool: Scratch
) -> None:
    pool.wait_for("Ready", "True", "PoolReady", pool="impatient", seconds=240)
    slow_down(pool, "impatient")
    streams = started(installation, pool, "impatient", 1, tokens=CONTEXT)
    began = time.monotonic()
    scale(pool, "impatient", 0)
    with pytest.raises(openai.APIError) as ended:
        streams.answers()
    # The drain, then what the pod itself has: preStop, --shutdown-timeout and the time to exit.
    assert time.monotonic() - began < 2 * IMPATIENT_SECONDS + 5 + 20 + 15
    assert not isinstance(ended.value, openai.APITimeoutError)
    assert ended.value.message
    assert "DrainTimedOut" in events(pool)
