"""Routers are killed, rolled and scaled under load: clients that retry as openai's do by default lose nothing."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from demo.cluster_client import Cluster
from demo.installation import NAMESPACE as SYSTEM
from demo.load import Load
from demo.waiting import NotYet, wait_until
from openai import DefaultHttpxClient, OpenAI

import host_processes
from exposed_metrics import sample
from installed import MODEL, Installation
from router_accounts import router_pods, router_states, wait_until_accounts_are_zero
from router_scale import DEPLOYMENT, one_router_again, scale_routers, wait_for_routers
from watched_stream import WatchedStream
from workslice_api.names import OPERATOR_METRICS_PORT, ROUTER_PORT

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
        one_router_again(pools.cluster)


@pytest.fixture(autouse=True)
def settled(pools: Installation) -> Iterator[None]:
    """After each test all accounts are zero."""
    yield
    wait_until_accounts_are_zero(pools.cluster)


@contextmanager
def questions_of_retrying_clients(url: str) -> Iterator[Load]:
    """Questions that are always running, asked by a client that retries as it does by default."""
    http = DefaultHttpxClient(trust_env=False)
    with (
        OpenAI(base_url=url, api_key="none", timeout=120, http_client=http) as client,
        Load(client, MODEL, in_flight=WORKERS, max_tokens=24, stream=False) as load,
    ):
        yield load


def stream_through_each(cluster: Cluster) -> dict[str, WatchedStream]:
    """A long stream through each router, asked at its own address, by the UID of its pod."""
    addresses = {pod["metadata"]["uid"]: pod["status"]["podIP"] for pod in router_pods(cluster)}
    streams = {
        uid: WatchedStream(f"http://{host}:{ROUTER_PORT}/v1", MODEL, LONG_ANSWER) for uid, host in addresses.items()
    }
    return {uid: stream.wait_for_start() for uid, stream in streams.items()}


def operators_queue_depth(cluster: Cluster, pool: str) -> float:
    """The queue depth of a pool (namespace/name) as the operator measures it. Raises NotYet while it knows none."""
    (pod,) = cluster.objects("pods", SYSTEM, "app.kubernetes.io/component=operator")
    namespace, _, name = pool.partition("/")
    series = f'workslice_operator_pool_queue_depth{{namespace="{namespace}",pool="{name}"}}'
    return sample(pod["status"]["podIP"], OPERATOR_METRICS_PORT, series)


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
    with questions_of_retrying_clients(three.url) as questions:
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
    with questions_of_retrying_clients(three.url) as questions:
        streams = stream_through_each(three.cluster)
        three.cluster.kubectl("rollout", "restart", DEPLOYMENT, "-n", SYSTEM)
        assert [stream.ending() for stream in streams.values()] == ["done"] * 3
        three.cluster.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=100s", seconds=110)
        wait_for_routers(three.cluster, 3)
        questions.wait_for_more(8)
    assert questions.failures == []


def test_going_from_three_routers_to_one_loses_no_request_and_cuts_no_stream(three: Installation) -> None:
    with questions_of_retrying_clients(three.url) as questions:
        streams = stream_through_each(three.cluster)
        scale_routers(three.cluster, 1)
        assert [stream.ending() for stream in streams.values()] == ["done"] * 3
        questions.wait_for_more(8)
    assert questions.failures == []
