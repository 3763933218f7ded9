"""A router that hangs is taken out of the endpoint within seconds; what it held is answered when it goes on."""

import signal
import time
from collections.abc import Iterator

import httpx
import pytest
from demo.installation import NAMESPACE as SYSTEM
from demo.installation import RELEASE, openai_client
from demo.load import Load
from demo.waiting import NotYet, wait_until

import host_processes
from installed import MODEL, Installation
from router_accounts import router_pods, wait_until_accounts_are_zero
from router_scale import one_router_again, scale_routers, wait_for_routers

OUT_SECONDS = 15
WORKERS = 4


@pytest.fixture
def two(pools: Installation) -> Iterator[Installation]:
    """Two routers; one again afterwards."""
    scale_routers(pools.cluster, 2)
    try:
        yield pools
        wait_until_accounts_are_zero(pools.cluster)
    finally:
        one_router_again(pools.cluster)


def ready_addresses(installation: Installation) -> set[str]:
    """Where the endpoint's Service sends connections."""
    slices = installation.cluster.objects("endpointslices", SYSTEM, f"kubernetes.io/service-name={RELEASE}")
    endpoints = [one for found in slices for one in found.get("endpoints") or []]
    return {address for one in endpoints if one["conditions"].get("ready") for address in one["addresses"]}


def newcomers_are_answered(url: str) -> None:
    for _ in range(8):
        try:
            httpx.get(f"{url}/models", timeout=1, trust_env=False).raise_for_status()
        except httpx.TransportError as error:
            raise NotYet(f"{type(error).__name__}: {error}") from error


def test_a_hung_router_leaves_the_endpoint_within_seconds_and_costs_no_request(
    two: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    victim, other = router_pods(two.cluster)
    process = host_processes.one_of_pod(victim["metadata"]["uid"], "workslice_router")
    with openai_client(two.url) as client, Load(client, MODEL, in_flight=WORKERS, max_tokens=24) as questions:
        questions.wait_for_more(8)
        process.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        try:

            def out() -> None:
                if (found := ready_addresses(two)) != {other["status"]["podIP"]}:
                    raise NotYet(f"{found}")

            wait_until("the hung router to leave the endpoint", out, seconds=OUT_SECONDS, every=0.2)
            took = time.monotonic() - stopped
            # The nodes hear of it a moment later.
            wait_until("newcomers to meet the other one", lambda: newcomers_are_answered(two.url), seconds=5, every=0.2)
        finally:
            process.signal(signal.SIGCONT)
        wait_for_routers(two.cluster, 2)
    assert questions.failures == [], "what it held when it hung is answered when it goes on"
    with capsys.disabled():
        print(f"out of the endpoint after {took:.1f} s")
