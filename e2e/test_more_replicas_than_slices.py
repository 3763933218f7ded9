"""More replicas than slices: the pool says so in numbers, gives back what it never had first, and heals."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from demo.installation import cluster_tool
from demo.question import SHORT_QUESTION, ask
from demo.waiting import NotYet, wait_until

from installed import MODEL, Installation
from scratch import Scratch
from workslice_cluster import instance

SMALL = "nvidia.com/mig-1g.10gb"
LARGE = "nvidia.com/mig-3g.40gb"


@pytest.fixture
def scaled_long(pools: Installation) -> Iterator[Scratch]:
    """The demo's pool `long`, which holds the only 3g.40gb slice, asked for a second replica by kubectl scale."""
    demo = Scratch(pools.cluster, "demo", pools.images.engine, models=Path())
    pools.cluster.kubectl("scale", "wspool/long", "-n", "demo", "--replicas=2")
    yield demo
    pools.cluster.kubectl("scale", "wspool/long", "-n", "demo", "--replicas=1")


def test_a_replica_without_a_slice_is_counted_and_goes_first_on_scale_down(scaled_long: Scratch) -> None:
    def engines() -> dict[str, str]:
        pods = [p for p in scaled_long.pods() if p["metadata"]["labels"].get("workslice.dev/pool") == "long"]
        return {p["metadata"]["uid"]: p["status"]["phase"] for p in pods}

    said = "no node has a free 3g.40gb (1 wanted, 0 free)"
    scaled_long.wait_for("SlicesGranted", "False", "NoFreeSlice", pool="long", saying=said)
    running = [uid for uid, phase in engines().items() if phase == "Running"]
    assert len(engines()) == 2

    scaled_long.cluster.kubectl("scale", "wspool/long", "-n", "demo", "--replicas=1")
    scaled_long.wait_for("SlicesGranted", "True", "SlicesAvailable", pool="long")

    def only_the_running_one() -> None:
        if list(engines()) != running:
            raise NotYet(str(engines()))

    wait_until("the pending replica to go", only_the_running_one, seconds=30)
    scaled_long.wait_for("Ready", "True", "PoolReady", pool="long")


def test_a_pool_heals_when_a_slice_becomes_free(scratch: Scratch, pools: Installation) -> None:
    # Two pools that never become Ready (no such model) compete for more small slices than there are.
    scratch.profile(slice_profile="1g.10gb", model_path="no-such-model")
    scratch.pool("first", model="first", replicas=2)
    scratch.wait_for("SlicesGranted", "True", "SlicesAvailable", pool="first")
    scratch.pool("second", model="second", replicas=1)
    message = scratch.wait_for("SlicesGranted", "False", "NoFreeSlice", pool="second")
    assert "1g.10gb" in message
    scratch.cluster.kubectl("delete", "wspool", "first", "-n", scratch.namespace)
    scratch.wait_for("SlicesGranted", "True", "SlicesAvailable", pool="second")


def allocatable(pools: Installation, resource: str, wanted: str) -> None:
    seen = pools.cluster.get("node", instance.from_environment().node_name)["status"]["allocatable"][resource]
    if seen != wanted:
        raise NotYet(f"allocatable {resource}: {seen}")


@contextmanager
def failed(pools: Installation, resource: str, devices: list[str]) -> Iterator[None]:
    """All devices of a resource are unhealthy within this context, and Kubernetes knows."""
    try:
        for device in devices:
            cluster_tool("health", device, "Unhealthy")
        wait_until("the node to lose its slices", lambda: allocatable(pools, resource, "0"), seconds=30)
        yield
    finally:
        for device in devices:
            cluster_tool("health", device, "Healthy")
        count = str(len(devices))
        wait_until("the node to have its slices again", lambda: allocatable(pools, resource, count), seconds=30)


def test_an_engine_runs_on_when_kubernetes_hears_that_its_device_fails(pools: Installation) -> None:
    headers = {"x-workslice-class": "long"}
    before = ask(pools.client(), MODEL, SHORT_QUESTION, stream=False, extra_headers=headers)
    with failed(pools, LARGE, ["MIG-3g.40gb-0"]):
        during = ask(pools.client(), MODEL, SHORT_QUESTION, stream=False, extra_headers=headers)
    assert before.pool == during.pool == "demo/long"
    assert before.replica == during.replica


def test_a_pool_that_waits_for_failed_devices_says_so_and_heals_when_they_recover(
    scratch: Scratch, pools: Installation
) -> None:
    with failed(pools, SMALL, [f"MIG-1g.10gb-{index}" for index in range(3)]):
        scratch.profile(slice_profile="1g.10gb", model_path="no-such-model")
        scratch.pool()
        message = scratch.wait_for("SlicesGranted", "False", "NoFreeSlice", saying="(1 wanted, 0 free)")
        assert f"failed: 3 on {instance.from_environment().node_name}" in message
    scratch.wait_for("SlicesGranted", "True", "SlicesAvailable")
