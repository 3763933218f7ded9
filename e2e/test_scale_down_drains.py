"""A scale-down loses nothing: streams of more than a minute finish, a replica can be called back, and one that never ends is told so."""

import time

import openai
import pytest
from demo.installation import NAMESPACE as SYSTEM
from demo.question import ask
from demo.waiting import NotYet, wait_until

from installed import Installation
from long_streams import LongStreams
from router_accounts import in_rotation, router_pods, wait_until_running
from router_scale import one_router_again, scale_routers, wait_for_routers
from scratch import Scratch
from watched_stream import WatchedStream
from workslice_api.names import ROUTER_PORT

PATIENT_SECONDS = 240
IMPATIENT_SECONDS = 5
MINUTE = 60
CONTEXT = 8000
"""Tokens of the longest answer that fits the tiny model."""
SLOW = "200m"
"""CPU limit under which an engine needs more than a minute for such an answer."""


@pytest.fixture(scope="module")
def pool(module_scratch: Scratch) -> Scratch:
    """A pool of two slow replicas, and one that finds its slice, and starts beside a test, when they have become one."""
    module_scratch.profile(slice_profile="1g.10gb")
    module_scratch.pool("patient", model="drain-patient", replicas=2, drain={"timeout": f"{PATIENT_SECONDS}s"})
    module_scratch.wait_for("Ready", "True", "PoolReady", pool="patient", seconds=240)
    module_scratch.limit_cpu(SLOW, pool="patient")
    module_scratch.pool("impatient", model="drain-impatient", drain={"timeout": f"{IMPATIENT_SECONDS}s"})
    return module_scratch


def engines(scratch: Scratch, pool: str) -> dict[str, str]:
    """Names of the pool's pods that are not on their way out, by UID."""
    found = (p["metadata"] for p in scratch.pods() if p["metadata"]["labels"]["workslice.dev/pool"] == pool)
    return {one["uid"]: one["name"] for one in found}


def started(installation: Installation, scratch: Scratch, pool: str, count: int, tokens: int) -> LongStreams:
    """Start streams and wait until the routers have them running: on as many replicas as there are streams."""
    streams = LongStreams(installation.client(), f"drain-{pool}", count=count, tokens=tokens)
    wait_until_running(installation.cluster, f"{scratch.namespace}/{pool}", count)
    assert streams.running() == count
    return streams


def scale(scratch: Scratch, pool: str, replicas: int) -> None:
    scratch.cluster.kubectl("scale", "wspool", pool, "-n", scratch.namespace, f"--replicas={replicas}")


def slow_replicas(scratch: Scratch, pool: str, count: int) -> dict[str, str]:
    """Bring a pool to this many slow replicas, whatever an earlier test has left, and return them as `engines` does."""
    scale(scratch, pool, count)

    def there() -> dict[str, str]:
        found, status = engines(scratch, pool), scratch.cluster.get("wspool", pool, scratch.namespace)["status"]
        if len(found) != count or status.get("readyReplicas", 0) != count or status.get("drainMarks"):
            raise NotYet(f"replicas: {found}, status: {status.get('readyReplicas')} ready, {status.get('drainMarks')}")
        return found

    found = wait_until(f"{pool} to have {count} replicas", there, seconds=PATIENT_SECONDS)
    scratch.limit_cpu(SLOW, pool=pool)
    return found


def asked_to_go(scratch: Scratch, pool: str) -> str:
    """Wait until the pool has asked one of its live replicas to go, and return its pod's UID."""

    def marked() -> str:
        marks = scratch.cluster.get("wspool", pool, scratch.namespace)["status"].get("drainMarks", [])
        if len(marks) != 1:
            raise NotYet(f"marks: {marks}")
        return str(marks[0]["uid"])

    return wait_until("a replica to be asked to go", marked, seconds=30)


def test_a_replica_that_drains_is_called_back_when_it_is_wanted_again(
    installation: Installation, pool: Scratch
) -> None:
    before = slow_replicas(pool, "patient", 2)
    streams = started(installation, pool, "patient", 2, tokens=CONTEXT // 2)
    scale(pool, "patient", 1)
    assert asked_to_go(pool, "patient") in before
    pool.wait_for("Draining", "True", "WaitingForRouters", pool="patient")
    scale(pool, "patient", 2)
    pool.wait_for("Draining", "False", "NotDraining", pool="patient")
    pool.wait_for_events("DrainCalledBack", pool="patient")
    assert streams.running() == 2, "the answers were too short for this test: lower SLOW"
    assert engines(pool, "patient") == before

    def both_in_rotation() -> None:
        if (found := in_rotation(installation.cluster, f"{pool.namespace}/patient")) != set(before):
            raise NotYet(f"in rotation: {found}")

    wait_until("both to take requests again", both_in_rotation, seconds=10, every=0.3)
    assert streams.complete(streams.answers(PATIENT_SECONDS))


@pytest.mark.soak  # the streams alone take more than a minute
def test_streams_of_more_than_a_minute_survive_a_scale_down(installation: Installation, pool: Scratch) -> None:
    before = slow_replicas(pool, "patient", 2)
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
    answers = streams.answers(PATIENT_SECONDS)
    assert streams.complete(answers)
    assert {answer.replica for answer in answers} == set(before)
    assert min(answer.total for answer in answers) > MINUTE, "the answers were too short for this test: lower SLOW"

    def one_left() -> None:
        if engines(pool, "patient") != {kept: before[kept]}:
            raise NotYet(f"replicas: {engines(pool, 'patient')}")

    wait_until("the replica that drained to go, and no other", one_left, seconds=30)
    pool.wait_for_events("DrainStarted", "ReplicaGone", pool="patient")
    assert "DrainTimedOut" not in pool.events("patient")


def test_a_replica_waits_for_the_stream_of_a_router_that_is_on_its_way_out(
    installation: Installation, pool: Scratch
) -> None:
    (replica,) = slow_replicas(pool, "patient", 1)
    cluster = installation.cluster
    scale_routers(cluster, 2)
    try:
        leaving, _ = router_pods(cluster)
        stream = WatchedStream(f"http://{leaving['status']['podIP']}:{ROUTER_PORT}/v1", "drain-patient", CONTEXT // 2)
        assert stream.wait_for_start().replica == replica
        cluster.kubectl("delete", "pod", leaving["metadata"]["name"], "-n", SYSTEM, "--wait=false")
        wait_for_routers(cluster, 2)
        scale(pool, "patient", 0)
        assert asked_to_go(pool, "patient") == replica
        pool.wait_for("Draining", "True", "WaitingForRouters", pool="patient", saying="routers have 1 request")
        wait_until_running(cluster, f"{pool.namespace}/patient", 0)  # of the routers that stay none has it
        assert stream.running, "the answer was too short for this test: lower SLOW"
        began = time.monotonic()

        def gone() -> None:
            left = engines(pool, "patient")
            if not left:
                assert not stream.running, "it waits for the stream"
                return
            raise NotYet(f"replicas: {left}")

        wait_until("the replica to go", gone, seconds=PATIENT_SECONDS, every=0.3)
        print(f"it waited for {time.monotonic() - began:.1f} s")
        assert stream.ending() == "done"
    finally:
        one_router_again(cluster)
    assert "DrainTimedOut" not in pool.events("patient")


def test_a_stream_that_outlives_the_drain_timeout_ends_in_an_error_and_not_in_silence(
    installation: Installation, pool: Scratch
) -> None:
    slow_replicas(pool, "patient", 0)  # it has the slice
    slow_replicas(pool, "impatient", 1)
    streams = started(installation, pool, "impatient", 1, tokens=CONTEXT)
    began = time.monotonic()
    scale(pool, "impatient", 0)
    with pytest.raises(openai.APIError) as ended:
        streams.answers(PATIENT_SECONDS)
    # The drain, then what the pod itself has: preStop, --shutdown-timeout and the time to exit.
    assert time.monotonic() - began < 2 * IMPATIENT_SECONDS + 5 + 20 + 15
    assert not isinstance(ended.value, openai.APITimeoutError)
    assert ended.value.message
    pool.wait_for_events("DrainTimedOut", pool="impatient")
