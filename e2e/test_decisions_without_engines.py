"""What the operator decides by what a real router and an engine's page say. The API has no nodes: what is decided is all there is."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

import manifests
from bare_api import BareApi
from bare_pools import SOON, wait_for_child
from faulty_api import Asked, FaultyApi
from host_router import HostRouter, host_router
from operator_process import OperatorProcess, operator_process
from played_kubelet import patch_status, run_as_a_kubelet_would
from scratch import Scratch
from workslice_api.names import ENGINE_PORT

ASLEEP = ("asleep-1", "asleep-2", "asleep-3")
WOKEN_SECONDS = 3
"""From the first request to the Deployment that is told to have a replica."""
ENGINES = "127.83.76."
"""How addresses begin at which engines of the host answer."""
DEMAND = {"mode": "QueueDepth", "maxReplicas": 6, "scaleDownWindow": "1s"}


@pytest.fixture(scope="module")
def sleepers(bare: BareApi) -> Iterator[Scratch]:
    """Pools that an operator before has scaled to zero."""
    made = Scratch(bare.cluster, "decisions", "engine:1", Path("/models"))
    made.create()
    made.profile()
    for name in ASLEEP:
        made.pool(name, model=name, scaling=DEMAND | {"scaleToZeroAfter": "1h"})
        patch_status(made, "wspool", name, {"scaling": {"asleep": True, "asked": 0}})
    yield made
    made.cluster.kubectl("delete", "wspool", "--all", "-n", made.namespace)
    made.cluster.kubectl("delete", "wsprof", made.namespace)


@pytest.fixture(scope="module")
def router(bare: BareApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostRouter]:
    with host_router(bare, tmp_path_factory.mktemp("router")) as running:
        yield running


@pytest.fixture(scope="module")
def operator(
    sleepers: Scratch, proxy: FaultyApi, router: HostRouter, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    with (
        proxy.faulty(router.listed),
        operator_process(tmp_path_factory.mktemp("operator"), proxy.url) as running,
    ):
        running.wait_until_it_leads()
        yield running


@pytest.fixture
def shop(sleepers: Scratch, operator: OperatorProcess) -> Iterator[Scratch]:
    """Where tests make pools; the operator and the router follow them."""
    yield sleepers
    assert operator.alive, operator.log.read_text()[-3000:]
    assert operator.said("error") == []


def size(scratch: Scratch, pool: str, replicas: int) -> None:
    """Wait until the pool's Deployment is told to have so many replicas."""
    wait_for_child(scratch, name=f"{pool}-engine", replicas=replicas)


def settle(scratch: Scratch, pool: str) -> None:
    """Say for the controllers, which this API does not have, that they have seen the Deployment: before that it is not made smaller."""
    patch_status(scratch, "deployment", f"{pool}-engine", {"observedGeneration": 1000})


def is_write(asked: Asked) -> bool:
    return asked.method != "GET" and "dryRun" not in asked.query


def test_the_first_request_wakes_a_pool_within_three_seconds(
    shop: Scratch, proxy: FaultyApi, router: HostRouter
) -> None:
    for name in ASLEEP:
        shop.wait_for("EnginesReady", "True", "ScaledToZero", pool=name, seconds=SOON)
        size(shop, name, 0)
    took = [woken_after(shop, proxy, router, name) for name in ASLEEP]
    print("woken after", ", ".join(f"{one:.2f} s" for one in took))
    assert median(took) <= WOKEN_SECONDS  # not all of them: the machine has other things to do


def woken_after(shop: Scratch, proxy: FaultyApi, router: HostRouter, name: str) -> float:
    """Seconds from the first request for a pool that sleeps to the write of its Deployment."""
    with router.request(name) as sent_at:

        def told() -> float:
            asked = [one for one in proxy.asked_since(sent_at) if one.path.endswith(f"/deployments/{name}-engine")]
            if not (writes := [one.at for one in asked if is_write(one)]):
                raise NotYet("nobody has written the Deployment")
            return writes[0]

        told_at = wait_until(f"{name} to be woken", told, seconds=SOON, every=0.05)
        size(shop, name, 1)
    return told_at - sent_at


def test_headroom_is_kept_above_what_requests_ask_for(shop: Scratch, router: HostRouter) -> None:
    shop.pool("roomy", model="roomy", scaling=DEMAND | {"headroom": 2})
    size(shop, "roomy", 2)
    with router.request("roomy"):
        size(shop, "roomy", 3)
        shop.wait_for("Scaling", "True", "ScaledUp", pool="roomy", saying="with scaling.headroom 2", seconds=SOON)


def test_hours_of_a_schedule_raise_the_minimum_and_their_end_lowers_it(shop: Scratch) -> None:
    shop.pool("hours", model="hours", scaling=DEMAND)
    size(shop, "hours", 1)
    hours = {"start": "00:00", "end": "00:00", "timeZone": "Asia/Kolkata", "minReplicas": 4}
    shop.cluster.patch("wspool", "hours", shop.namespace, {"spec": {"scaling": {"schedule": [hours]}}})
    size(shop, "hours", 4)
    settle(shop, "hours")
    shop.cluster.patch("wspool", "hours", shop.namespace, {"spec": {"scaling": {"schedule": []}}})
    size(shop, "hours", 1)


def test_a_pool_keeps_its_size_while_no_router_answers(shop: Scratch, router: HostRouter) -> None:
    shop.pool("unknown", model="unknown", scaling=DEMAND | {"headroom": 3})
    size(shop, "unknown", 3)
    with router.away():
        shop.wait_for("Scaling", "Unknown", "SignalUnknown", pool="unknown", saying="3 replicas", seconds=SOON)
        shop.cluster.patch("wspool", "unknown", shop.namespace, {"spec": {"scaling": {"headroom": 0}}})
        wait_until("the change to be seen", lambda: change_is_seen(shop, "unknown"), seconds=SOON, every=0.2)
        settle(shop, "unknown")
        size(shop, "unknown", 3)
    size(shop, "unknown", 1)


def change_is_seen(shop: Scratch, pool: str) -> None:
    raw = shop.cluster.get("wspool", pool, shop.namespace)
    if raw["status"]["observedGeneration"] < raw["metadata"]["generation"]:
        raise NotYet("it is not")


def test_a_paused_profile_holds_every_write_for_it_and_its_pools(shop: Scratch, proxy: FaultyApi) -> None:
    profile = f"{shop.namespace}-held"
    shop.cluster.apply([manifests.profile(profile, shop.engine_image)])
    shop.pool("held", model="held", profile=profile)
    shop.pool("free", model="free")
    size(shop, "held", 1)
    shop.cluster.kubectl("annotate", "wsprof", profile, "workslice.dev/paused=true")
    shop.wait_for("Paused", "True", "Paused", pool="held", saying="of its profile", seconds=SOON)
    profile_is_paused(shop, profile)
    began = time.monotonic()
    shop.cluster.patch("wsprof", profile, "default", {"spec": {"cpu": {"request": "60m"}}})
    for pool in ("held", "free"):
        shop.cluster.patch("wspool", pool, shop.namespace, {"spec": {"replicas": 2}})
    size(shop, "free", 2)  # it came last: the other has been looked at
    about = ("/held-engine", "/workspacepools/held/status", f"/workspaceprofiles/{profile}/status")
    assert [one for one in proxy.asked_since(began) if is_write(one) and one.path.endswith(about)] == []
    size(shop, "held", 1)
    shop.cluster.kubectl("annotate", "wsprof", profile, "workslice.dev/paused-")
    size(shop, "held", 2)
    shop.cluster.kubectl("delete", "wspool", "held", "-n", shop.namespace)
    shop.cluster.kubectl("delete", "wsprof", profile)


def profile_is_paused(shop: Scratch, profile: str) -> None:
    def look() -> None:
        if (found := condition(shop.cluster.get("wsprof", profile), "Paused"))["status"] != "True":
            raise NotYet(str(found))

    wait_until(f"{profile} to say that it is paused", look, seconds=SOON, every=0.2)


def test_engines_with_another_cache_than_estimated_are_believed_and_an_event_tells(shop: Scratch) -> None:
    profile = f"{shop.namespace}-shaped"
    shape = {"parameters": 10**9, "layers": 16, "hiddenSize": 2048, "intermediateSize": 8192, "kvHeads": 8}
    model = {"source": "pvc://models/tiny", "shape": shape | {"headSize": 64, "vocabulary": 32_000}}
    slices = {"profiles": ["1g.10gb"], "products": ["NVIDIA-H100-80GB-HBM3"]}
    shop.cluster.apply(
        [manifests.profile(profile, shop.engine_image, model=model, slice=slices, memory={"host": "3Gi"})]
    )
    shop.pool("measured", model="measured", profile=profile)
    size(shop, "measured", 1)
    estimated = row_of(shop, profile)
    with engine_with_cache(tokens=estimated["kvTokens"] // 2):
        run_as_a_kubelet_would(shop, "measured-engine", ENGINES)

        def told() -> dict[str, Any]:
            if "EstimateOff: 1g.10gb" not in events_of(shop, profile):
                raise NotYet(events_of(shop, profile))
            return row_of(shop, profile)

        row = wait_until("an Event about the estimate", told, seconds=SOON, every=0.3)
    assert (row["source"], row["kvTokens"]) == ("measured", estimated["kvTokens"] // 2)
    assert row["estimatedKvTokens"] == estimated["kvTokens"]
    shop.cluster.kubectl("delete", "wspool", "measured", "-n", shop.namespace)
    shop.cluster.kubectl("delete", "wsprof", profile)


def row_of(shop: Scratch, profile: str) -> dict[str, Any]:
    """The profile's only slice, once its status has it."""

    def look() -> dict[str, Any]:
        if not (rows := shop.cluster.get("wsprof", profile).get("status", {}).get("slices")):
            raise NotYet("no slice")
        return dict(rows[0])

    return wait_until(f"the slice of {profile}", look, seconds=SOON, every=0.3)


def events_of(shop: Scratch, profile: str) -> str:
    found = [one for one in shop.cluster.objects("events", "default") if one["involvedObject"]["name"] == profile]
    return "\n".join(f"{one['reason']}: {one['message']}" for one in found)


@contextmanager
def engine_with_cache(tokens: int) -> Iterator[None]:
    """Within this context an engine of the host shows a page of metrics, as a pod's does."""
    page = (
        "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
        f'vllm:cache_config_info{{block_size="16",kv_cache_size_tokens="{tokens}"}} 1\n'
    ).encode()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((f"{ENGINES}1", ENGINE_PORT), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()
