"""Routers are killed, rolled and scaled under load: clients that retry as openai's do by default lose nothing."""

import signal
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from demo.cluster_client import Cluster
from demo.installation import NAMESPACE as SYSTEM
from demo.pool_state import condition
from demo.question import ask
from demo.waiting import NotYet, wait_until
from openai import DefaultHttpxClient, OpenAI, OpenAIError

import host_processes
from installed import MODEL, Installation
from router_accounts import router_pods, router_states, wait_until_accounts_are_zero
from watched_stream import WatchedStream

DEPLOYMENT = "deployment/workslice-router"
PORT, OPERATOR_METRICS_PORT = 8000, 8080
WORKERS = 4
LONG_ANSWER = 6000
POOL = "demo/long"


@pytest.fixture(scope="module")
def three(pools: Installation) -> Iterator[Installation]:
    """Three routers; one again afterwards."""
    scale_routers(pools.cluster, 3)
    try:
        yield pools
    finally:
        scale_routers(pools.cluster, 1)


@pytest.fixture(autouse=True)
def settled(pools: Installation) -> Iterator[None]:
    """After each test all accounts are zero."""
    yield
    wait_until_accounts_are_zero(pools.cluster)


def scale_routers(cluster: Cluster, count: int) -> None:
    cluster.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, f"--replicas={count}")
    wait_for_routers(cluster, count)


def wait_for_routers(cluster: Cluster, count: int) -> None:
    def as_many() -> None:
        found = router_pods(cluster)
        ready = [pod for pod in found if condition(pod, "Ready")["status"] == "True"]
        if not (len(found) == len(ready) == count):
            raise NotYet(f"{len(ready)} of {len(found)} routers are ready")
        if not all(state["synced"] for state in router_states(cluster).values()):
            raise NotYet("a router does not know the pools yet")

    wait_until(f"{count} routers to be ready", as_many, seconds=90)


class Retrying:
    """A context in which questions are always running, asked by clients that retry as they do by default."""

    def __init__(self, url: str) -> None:
        self.count = 0
        self.failures: list[str] = []
        self._url = url
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(WORKERS)]

    def __enter__(self) -> "Retrying":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=120)

    def _work(self, number: int) -> None:
        http = DefaultHttpxClient(trust_env=False)
        with OpenAI(base_url=self._url, api_key="none", timeout=120, http_client=http) as client:
            while not self._stop.is_set():
                try:
                    ask(client, MODEL, f"Worker {number} asks", stream=False, max_tokens=24)
                    self.count += 1
                except OpenAIError as error:
                    self.failures.append(f"{type(error).__name__}: {error}")

    def wait_for_more(self, count: int) -> None:
        """Wait until that many more answers are here."""
        goal = self.count + count

        def more() -> None:
            if self.count < goal:
                raise NotYet(f"{goal - self.count} of {count} are missing; failures: {self.failures}")

        wait_until(f"{count} more answers", more, seconds=60, every=0.2)


def stream_through_each(cluster: Cluster) -> dict[str, WatchedStream]:
    """A long stream through each router, asked at its own address, by the UID of its pod."""
    addresses = {pod["metadata"]["uid"]: pod["status"]["podIP"] for pod in router_pods(cluster)}
    streams = {uid: WatchedStream(f"http://{host}:{PORT}/v1", MODEL, LONG_ANSWER) for uid, host in addresses.items()}
    return {uid: stream.wait_for_start() for uid, stream in streams.items()}


def operators_queue_depth(cluster: Cluster, pool: str) -> float:
    """The queue depth of a pool (namespace/name) as the operator measures it."""
    (pod,) = cluster.objects("pods", SYSTEM, "app.kubernetes.io/component=operator")
    host = pod["status"]["podIP"]
    text = httpx.get(f"http://{host}:{OPERATOR_METRICS_PORT}/metrics", timeout=3, trust_env=False).text
    namespace, _, name = pool.partition("/")
    start = f'workslice_operator_pool_queue_depth{{namespace="{namespace}",pool="{name}"}} '
    return float(next((line.removeprefix(start) for line in text.splitlines() if line.startswith(start)), "nan"))


def running(state: dict[str, Any]) -> int:
    return int(state["pools"][POOL]["queued"] + state["pools"][POOL]["running"])


def test_the_routers_numbers_add_up_in_the_operator(three: Installation) -> None:
    streams = stream_through_each(three.cluster)

    def adds_up() -> None:
        each = [running(state) for state in router_states(three.cluster).values()]
        told = operators_queue_depth(three.cluster, POOL)
        if each != [1, 1, 1] or told != 3:
            raise NotYet(f"routers {each}, operator {told}; {[stream.running for stream in streams.values()]}")

    wait_until("three requests in the operator's sum", adds_up, seconds=20, every=0.3)
    assert [stream.ending() for stream in streams.values()] == ["done"] * 3


def test_a_killed_router_costs_its_own_streams_alone_and_no_request_of_a_client_that_retries(
    three: Installation,
) -> None:
    with Retrying(three.url) as questions:
        questions.wait_for_more(8)
        streams = stream_through_each(three.cluster)
        victim = next(iter(streams))
        host_processes.one_of_pod(victim, "workslice_router").signal(signal.SIGKILL)
        assert streams.pop(victim).ending() == "cut"
        questions.wait_for_more(16)
        assert [stream.ending() for stream in streams.values()] == ["done", "done"]
        wait_for_routers(three.cluster, 3)
    assert questions.failures == []


def test_a_rollout_of_the_routers_loses_no_request_and_cuts_no_stream(three: Installation) -> None:
    with Retrying(three.url) as questions:
        streams = stream_through_each(three.cluster)
        three.cluster.kubectl("rollout", "restart", DEPLOYMENT, "-n", SYSTEM)
        assert [stream.ending() for stream in streams.values()] == ["done"] * 3
        three.cluster.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=100s", seconds=110)
        wait_for_routers(three.cluster, 3)
        questions.wait_for_more(8)
    assert questions.failures == []


def test_going_from_three_routers_to_one_loses_no_request_and_cuts_no_stream(three: Installation) -> None:
    with Retrying(three.url) as questions:
        streams = stream_through_each(three.cluster)
        scale_routers(three.cluster, 1)
        assert [stream.ending() for stream in streams.values()] == ["done"] * 3
        questions.wait_for_more(8)
    assert questions.failures == []
