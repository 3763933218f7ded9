"""More replicas than slices: the pool says so in numbers, gives back what it never had first, and heals."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from demo.installation import cluster_tool
from demo.waiting import NotYet, wait_until

from installed import Installation
from scratch import Scratch

NODE = "workslice-node"
ONLY_LARGE_SLICE = "MIG-3g.40gb-0"
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

    message = scaled_long.wait_for("SlicesGranted", "False", "NoFreeSlice", pool="long")
    assert "3g.40gb" in message
    assert "2 wanted" in message or "1 wanted" in message
    assert "0 free" in message
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


def test_a_device_that_fails_is_seen_by_kubernetes_and_its_engine_keeps_running(pools: Installation) -> None:
    def allocatable(wanted: str) -> None:
        seen = pools.cluster.get("node", NODE)["status"]["allocatable"][LARGE]
        if seen != wanted:
            raise NotYet(f"allocatable {LARGE}: {seen}")

    allocatable("1")
    cluster_tool("health", ONLY_LARGE_SLICE, "Unhealthy")
    try:
        wait_until("the node to lose its large slice", lambda: allocatable("0"), seconds=30)
    finally:
        cluster_tool("health", ONLY_LARGE_SLICE, "Healthy")
    wait_until("the node to have its large slice again", lambda: allocatable("1"), seconds=30)


def test_a_pool_that_waits_for_a_failed_device_heals_when_the_device_recovers(
    scratch: Scratch, pools: Installation
) -> None:
    devices = [f"MIG-1g.10gb-{index}" for index in range(3)]
    for device in devices:
        cluster_tool("health", device, "Unhealthy")
    try:
        scratch.profile(slice_profile="1g.10gb", model_path="no-such-model")
        scratch.pool()
        message = scratch.wait_for("SlicesGranted", "False", "NoFreeSlice")
        assert "0 free" in message
    finally:
        for device in devices:
            cluster_tool("health", device, "Healthy")
    scratch.wait_for("SlicesGranted", "True", "SlicesAvailable")
