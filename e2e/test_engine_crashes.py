"""An engine dies or hangs: no client takes half an answer for a whole one, what had not begun goes elsewhere, the pool recovers."""

import signal
import threading
import time
from collections.abc import Iterator

import pytest
from demo.pool_state import condition
from demo.question import Answer, ask
from demo.waiting import NotYet, wait_until
from openai import OpenAI, OpenAIError

import host_processes
import manifests
from installed import Installation
from router_accounts import router_states, wait_until_accounts_are_zero
from scratch import Scratch
from watched_stream import WatchedStream

pytestmark = pytest.mark.soak  # minutes of waiting on purpose: `make soak`

MODEL = "crash"
API_SERVER, ENGINE_CORE = "python /usr/local/bin/serve_on_cpu.py", "VLLM::EngineCore"
LONG_ANSWER = 8000
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
    wait_until("both replicas to be in rotation", lambda: in_rotation(installation, pool), seconds=60)
    yield
    wait_until_accounts_are_zero(installation.cluster)


class Questions:
    """A context in which short questions are always running, not streamed: nobody has seen a part of any answer."""

    def __init__(self, client: OpenAI) -> None:
        self.answers: list[Answer] = []
        self.failures: list[str] = []
        self._client = client
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(WORKERS)]

    def __enter__(self) -> "Questions":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=120)

    def _work(self, number: int) -> None:
        while not self._stop.is_set():
            try:
                self.answers.append(ask(self._client, MODEL, f"Worker {number} asks", stream=False, max_tokens=24))
            except OpenAIError as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                self._stop.wait(0.5)

    def wait_for_more(self, count: int) -> None:
        """Wait until that many more answers are here."""
        goal = len(self.answers) + count

        def more() -> None:
            if len(self.answers) < goal:
                raise NotYet(f"{goal - len(self.answers)} of {count} are missing; failures: {self.failures}")

        wait_until(f"{count} more answers", more, seconds=60, every=0.2)


def uids(pool: Scratch) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pool.pods()}


def restarts(pool: Scratch) -> dict[str, int]:
    return {p["metadata"]["uid"]: p["status"]["containerStatuses"][0]["restartCount"] for p in pool.pods()}


def ready_replicas(installation: Installation, pool: Scratch) -> set[str]:
    """Replicas that every router has in rotation."""
    states = router_states(installation.cluster).values()
    rotations = []
    for state in states:
        replicas = state["pools"].get(f"{pool.namespace}/pool", {"replicas": []})["replicas"]
        rotations.append({r["uid"] for r in replicas if r["ready"] and not r["ejected"] and not r["draining"]})
    return set.intersection(*rotations)


def in_rotation(installation: Installation, pool: Scratch) -> None:
    # A replica comes back by a request that probes it.
    for number in range(2):
        ask(installation.client(), MODEL, f"Back? {number}", stream=False, max_tokens=1)
    found = ready_replicas(installation, pool)
    if found != uids(pool):
        raise NotYet(f"in rotation: {sorted(found)} of {sorted(uids(pool))}")


def stream_on_each(installation: Installation, pool: Scratch) -> dict[str, WatchedStream]:
    """One long stream on each replica, by its UID: each new request goes to the emptier one."""
    streams = [WatchedStream(installation.url, MODEL, LONG_ANSWER).wait_for_start() for _ in uids(pool)]
    found = {one.replica: one for one in streams}
    assert found.keys() == uids(pool)
    return found


def warnings(pool: Scratch) -> str:
    """Reasons and messages of the pools' warning Events, one in a line."""
    events = pool.cluster.objects("events", pool.namespace)
    mine = [e for e in events if e["type"] == "Warning" and e["involvedObject"]["kind"] == "WorkspacePool"]
    return "\n".join(f"{event['reason']}: {event['message']}" for event in mine)


@pytest.mark.parametrize("part", [API_SERVER, ENGINE_CORE], ids=["API server", "EngineCore"])
def test_a_killed_engine_costs_started_streams_alone_and_the_pool_recovers(
    installation: Installation, pool: Scratch, part: str
) -> None:
    victim = min(restarts(pool), key=lambda uid: restarts(pool)[uid])
    (name,) = [p["metadata"]["name"] for p in pool.pods() if p["metadata"]["uid"] == victim]
    streams = stream_on_each(installation, pool)
    with Questions(installation.client()) as questions:
        questions.wait_for_more(6)
        assert streams[victim].running, "the answers are too short for this test"
        host_processes.one_of_pod(victim, part).signal(signal.SIGKILL)
        assert streams.pop(victim).ending() in ("error", "cut")
        seen = len(questions.answers)
        said = pool.wait_for("EnginesReady", "False", "CrashLooping", saying=name, seconds=60)
        questions.wait_for_more(10)
        assert {answer.replica for answer in questions.answers[seen + WORKERS :]} == streams.keys()
    # What the core itself was running gets its last word, since it may have been what killed it; nothing else fails.
    last_words = [one for one in questions.failures if part == ENGINE_CORE and "EngineCore encountered an issue" in one]
    assert questions.failures == last_words
    assert len(last_words) <= WORKERS
    assert [stream.ending() for stream in streams.values()] == ["done"]
    assert "1 of 2 replicas ready" in said
    died = f"{name} ended with exit code" if part == API_SERVER else f"the EngineCore process of {name} was killed or crashed"
    assert died in said
    assert f"CrashLooping: 1 of 2 replicas ready; {died}" in warnings(pool)
    pool.wait_for("Ready", "True", "PoolReady", seconds=240)
    wait_until("both to answer again", lambda: in_rotation(installation, pool), seconds=60)
    assert restarts(pool)[victim] >= 1


def test_a_frozen_engine_leaves_rotation_and_is_back_when_it_answers_again(
    installation: Installation, pool: Scratch
) -> None:
    victim, other = sorted(uids(pool))
    frozen = host_processes.of_pod(victim)
    before = restarts(pool)
    with Questions(installation.client()) as questions:
        questions.wait_for_more(6)
        try:
            for process in frozen:
                process.signal(signal.SIGSTOP)
            froze = time.monotonic()
            pool.wait_for("EnginesReady", "False", "NotAnswering", seconds=60)

            def out() -> None:
                if (found := ready_replicas(installation, pool)) != {other}:
                    raise NotYet(f"in rotation: {found}")

            wait_until("the frozen replica to leave rotation", out, seconds=10, every=0.3)
            print(f"out of rotation after {time.monotonic() - froze:.1f} s")
            meanwhile = [ask(installation.client(), MODEL, f"And {n}?", stream=True, max_tokens=4) for n in range(6)]
            assert {answer.replica for answer in meanwhile} == {other}
        finally:
            for process in frozen:
                process.signal(signal.SIGCONT)
        pool.wait_for("Ready", "True", "PoolReady", seconds=30)
        wait_until("both to be in rotation", lambda: in_rotation(installation, pool), seconds=30)
    assert questions.failures == [], "what it held when it froze is answered when it goes on"
    assert restarts(pool) == before, "it came back by itself"
    assert "NotAnswering: 1 of 2 replicas ready" in warnings(pool)


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
    # The engine touches its whole cache when it starts: more than the limit of its pod.
    memory = {"host": "1Gi", "kvCache": "900Mi"}
    image = pool.engine_image
    pool.cluster.apply([manifests.profile(hungry, image, slice_profile="1g.10gb", memory=memory)])
    pool.profiles.append(hungry)
    with Questions(installation.client()) as questions:
        pool.pool("hungry", profile=hungry, model="hungry")
        said = pool.wait_for("EnginesReady", "False", "OutOfMemory", pool="hungry", seconds=240)
        questions.wait_for_more(5)
    assert "limit of 1Gi" in said
    assert "raise memory.host of the profile" in said
    assert "OutOfMemory: 0 of 1 replicas ready" in warnings(pool)
    assert questions.failures == []
    assert condition(pool.cluster.get("wspool", "pool", pool.namespace), "Ready")["status"] == "True"
    after = restarts(pool)
    assert {uid: after[uid] for uid in before} == before
