"""An engine dies or hangs: no client takes half an answer for a whole one, what had not begun goes elsewhere, the pool recovers."""

import signal
import time
from collections.abc import Iterator

import pytest
from demo.load import Load
from demo.pool_state import condition
from demo.question import ask
from demo.waiting import NotYet, wait_until

import host_processes
import manifests
from installed import Installation
from router_accounts import in_rotation, wait_until_accounts_are_zero
from scratch import Scratch
from watched_stream import WatchedStream

pytestmark = pytest.mark.soak  # minutes of waiting on purpose: `make soak`

MODEL = "crash"
API_SERVER, ENGINE_CORE = "serve_on_cpu.py", "VLLM::EngineCore"
LAST_WORD = "EngineCore encountered an issue"
LONG_ANSWER = 8000
SLOW, FULL_SPEED = "300m", "2"
"""CPU of an engine: while an answer has to last until its engine is killed, and from then on."""
WORKERS = 3


@pytest.fixture(scope="module")
def pool(module_scratch: Scratch) -> Scratch:
    """A pool of two replicas."""
    module_scratch.profile(slice_profile="1g.10gb")
    module_scratch.pool(model=MODEL, replicas=2)
    return module_scratch


@pytest.fixture(autouse=True)
def settled(installation: Installation, pool: Scratch) -> Iterator[None]:
    """Before each test all replicas answer, after it all accounts are zero."""
    pool.wait_for("Ready", "True", "PoolReady", seconds=240)
    wait_until("both replicas to be in rotation", lambda: both_answer(installation, pool), seconds=60)
    yield
    wait_until_accounts_are_zero(installation.cluster)


def questions_not_streamed(installation: Installation) -> Load:
    """Short questions that are always running; nobody has seen a part of any answer."""
    return Load(installation.client(), MODEL, in_flight=WORKERS, max_tokens=24, stream=False)


def uids(pool: Scratch) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pool.pods()}


def restarts(pool: Scratch) -> dict[str, int]:
    return {p["metadata"]["uid"]: p["status"]["containerStatuses"][0]["restartCount"] for p in pool.pods()}


def both_answer(installation: Installation, pool: Scratch) -> None:
    # A replica comes back by a request that probes it.
    for number in range(2):
        ask(installation.client(), MODEL, f"Back? {number}", stream=False, max_tokens=1)
    found = rotation(installation, pool)
    if found != uids(pool):
        raise NotYet(f"in rotation: {sorted(found)} of {sorted(uids(pool))}")


def rotation(installation: Installation, pool: Scratch) -> set[str]:
    return in_rotation(installation.cluster, f"{pool.namespace}/pool")


def stream_on_each(installation: Installation, pool: Scratch) -> dict[str, WatchedStream]:
    """One long stream on each replica, by its UID: each new request goes to the emptier one."""
    streams = [WatchedStream(installation.url, MODEL, LONG_ANSWER).wait_for_start() for _ in uids(pool)]
    found = {one.replica: one for one in streams}
    assert found.keys() == uids(pool)
    return found


@pytest.mark.parametrize("part", [API_SERVER, ENGINE_CORE], ids=["API server", "EngineCore"])
def test_a_killed_engine_costs_started_streams_alone_and_the_pool_recovers(
    installation: Installation, pool: Scratch, part: str
) -> None:
    victim = min(restarts(pool), key=lambda uid: restarts(pool)[uid])
    (name,) = [p["metadata"]["name"] for p in pool.pods() if p["metadata"]["uid"] == victim]
    pool.limit_cpu(SLOW)
    streams = stream_on_each(installation, pool)  # before any question, or both may go to one replica
    with questions_not_streamed(installation) as questions:
        questions.wait_for_more(6)
        assert streams[victim].running, "the answers are too short for this test: lower SLOW"
        host_processes.one_of_pod(victim, part).signal(signal.SIGKILL)
        pool.limit_cpu(FULL_SPEED)
        assert streams.pop(victim).ending() in ("error", "cut")
        seen = len(questions.answers)
        pool.wait_for("EnginesReady", "False", "CrashLooping", saying=name, seconds=60)
        questions.wait_for_more(10)
        assert {answer.replica for answer in questions.answers[seen + WORKERS :]} == streams.keys()
        died = (
            f"{name} ended with exit code"
            if part == API_SERVER
            else f"the EngineCore process of {name} was killed or crashed"
        )
        # The cause is in a log that can be read a moment after the end is seen.
        pool.wait_for("EnginesReady", "False", "CrashLooping", saying=f"1 of 2 replicas ready; {died}", seconds=60)
    pool.wait_for_events("CrashLooping: 1 of 2 replicas ready; ")
    # What the core itself was running gets its last word, since it may have been what killed it; nothing else fails.
    last_words = [one for one in questions.failures if part == ENGINE_CORE and LAST_WORD in one.error]
    assert questions.failures == last_words
    assert len(last_words) <= WORKERS
    assert [stream.ending() for stream in streams.values()] == ["done"]
    pool.wait_for("Ready", "True", "PoolReady", seconds=240)
    wait_until("both to answer again", lambda: both_answer(installation, pool), seconds=60)
    assert restarts(pool)[victim] >= 1


def test_a_frozen_engine_leaves_rotation_and_is_back_when_it_answers_again(
    installation: Installation, pool: Scratch
) -> None:
    victim, other = sorted(uids(pool))
    frozen = host_processes.of_pod(victim)
    before = restarts(pool)
    with questions_not_streamed(installation) as questions:
        questions.wait_for_more(6)
        try:
            for process in frozen:
                process.signal(signal.SIGSTOP)
            froze = time.monotonic()

            def out() -> None:
                if (found := rotation(installation, pool)) != {other}:
                    raise NotYet(f"in rotation: {found}")

            wait_until("the frozen replica to leave rotation", out, seconds=20, every=0.3)
            print(f"out of rotation after {time.monotonic() - froze:.1f} s")
            pods = {pod["metadata"]["uid"]: pod for pod in pool.pods()}
            assert condition(pods[victim], "Ready")["status"] == "True", "the routers saw it before Kubernetes"
            meanwhile = [ask(installation.client(), MODEL, f"And {n}?", stream=True, max_tokens=4) for n in range(6)]
            assert {answer.replica for answer in meanwhile} == {other}
            pool.wait_for("EnginesReady", "False", "NotAnswering", seconds=60)
        finally:
            for process in frozen:
                process.signal(signal.SIGCONT)
        pool.wait_for("Ready", "True", "PoolReady", seconds=30)
        wait_until("both to be in rotation", lambda: both_answer(installation, pool), seconds=30)
    assert questions.failures == [], "what it held when it froze is answered when it goes on"
    assert restarts(pool) == before, "it came back by itself"
    pool.wait_for_events("NotAnswering: 1 of 2 replicas ready")


def test_an_engine_that_exceeds_its_memory_is_named_with_limit_and_advice_and_the_other_pool_does_not_notice(
    installation: Installation, pool: Scratch
) -> None:
    pool.cluster.kubectl("scale", "wspool", "pool", "-n", pool.namespace, "--replicas=1")

    def one_left() -> None:
        if len(pool.pods()) != 1 or len(pool.cluster.objects("pods", pool.namespace)) != 1:
            raise NotYet(f"{len(pool.pods())} replicas")

    wait_until("one replica to be left", one_left, seconds=90)
    before = restarts(pool)
    hungry = f"{pool.namespace}-hungry"
    # Half of what the engine's two processes and its cache take. (vLLM itself refuses a cache that does not fit into what is left.)
    memory = {"host": "512Mi", "kvCache": "256Mi"}
    image = pool.engine_image
    pool.cluster.apply([manifests.profile(hungry, image, slice_profile="1g.10gb", memory=memory)])
    pool.profiles.append(hungry)
    with questions_not_streamed(installation) as questions:
        pool.pool("hungry", profile=hungry, model="hungry")
        said = pool.wait_for("EnginesReady", "False", "OutOfMemory", pool="hungry", seconds=240)
        questions.wait_for_more(5)
    assert "limit of 512Mi" in said
    assert "raise memory.host of the profile" in said
    pool.wait_for_events("OutOfMemory: 0 of 1 replicas ready", pool="hungry")
    assert questions.failures == []
    assert condition(pool.cluster.get("wspool", "pool", pool.namespace), "Ready")["status"] == "True"
    after = restarts(pool)
    assert {uid: after[uid] for uid in before} == before
