"""A pool in mode External follows the cluster's own HorizontalPodAutoscaler, and shrinks by draining as it always does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from demo.installation import cluster_tool
from demo.load import Load
from demo.pool_state import describe
from demo.waiting import NotYet, wait_until

import manifests
from installed import Installation
from scratch import Scratch
from workslice_api.names import FIELD_MANAGER, STATUS_FIELD_MANAGER
from workslice_cluster import images

pytestmark = pytest.mark.soak  # minutes of waiting on purpose: `make soak`

MODEL = "followed"
CPU = "60m"
"""Of a replica, on average: a simulated engine needs a third of it for one stream, and several times as much for all of `BUSY`."""
BUSY = 12
SPEED = "0.2"
"""Of the simulated engine: 80 tokens a second for each stream."""


@pytest.fixture(scope="module")
def pool(module_scratch: Scratch) -> Iterator[Scratch]:
    """One replica of simulated engines, and a HorizontalPodAutoscaler that makes it up to two by their CPU."""
    archive, reference = images.ensure("engine-sim")
    cluster_tool("load", str(archive))
    cluster_tool("metrics", "add")
    module_scratch.profile(
        engine=manifests.engine(reference, "--sim-speed", SPEED),
        slice_profile="1g.10gb",
        memory={"host": "256Mi", "kvCache": "128Mi"},
        workspace={"maxTokens": 8192, "maxConcurrent": 32},
    )
    module_scratch.pool(model=MODEL, scaling={"mode": "External"}, drain={"timeout": "60s"})
    module_scratch.wait_for("Ready", "True", "PoolReady", seconds=90)
    module_scratch.cluster.apply([autoscaler(module_scratch.namespace)])
    yield module_scratch
    module_scratch.cluster.kubectl("delete", "hpa", "pool", "-n", module_scratch.namespace, "--ignore-not-found")
    cluster_tool("metrics", "remove")


def autoscaler(namespace: str) -> manifests.Manifest:
    cpu = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": CPU}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "pool", "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "workslice.dev/v1alpha1", "kind": "WorkspacePool", "name": "pool"},
            "minReplicas": 1,
            "maxReplicas": 2,
            "metrics": [{"type": "Resource", "resource": cpu}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }


def test_a_horizontal_pod_autoscaler_sizes_the_pool_by_cpu_and_no_request_is_lost(
    installation: Installation, pool: Scratch
) -> None:
    with Load(installation.client(), MODEL, in_flight=BUSY, stream=True) as load:
        wait_for_replicas(pool, 2, "more load")
        load.wait_for_more(BUSY)
        load.in_flight = 1
        wait_for_replicas(pool, 1, "less load")
        load.wait_for_more(2)
    assert load.failures == []
    pool.wait_for_events("ScaledUp: from 1 to 2 replicas", "DrainStarted", "ReplicaGone", "ScaledDown: from 2 to 1")
    assert "DrainTimedOut" not in pool.events()
    pool.wait_for("Scaling", "False", "External", saying="spec.replicas asks for 1 replica")


def test_spec_replicas_is_the_autoscalers_and_the_operator_has_written_the_status_alone(pool: Scratch) -> None:
    words = ("get", "wspool", "pool", "-n", pool.namespace, "-o", "json", "--show-managed-fields")
    entries = json.loads(pool.cluster.kubectl(*words))["metadata"]["managedFields"]
    writers = {one["manager"] for one in entries if "f:replicas" in one["fieldsV1"].get("f:spec", {})}
    assert writers == {"kube-controller-manager"}
    ours = [one for one in entries if one["manager"] in (FIELD_MANAGER, STATUS_FIELD_MANAGER)]
    assert [(one.get("subresource"), list(one["fieldsV1"])) for one in ours] == [("status", ["f:status"])]


def wait_for_replicas(pool: Scratch, wanted: int, because: str) -> None:
    def there() -> None:
        found = pool.cluster.get("wspool", "pool", pool.namespace)
        status: dict[str, Any] = found["status"]
        if (found["spec"]["replicas"], status.get("replicas"), status.get("readyReplicas")) != (wanted,) * 3:
            raise NotYet(f"{describe(found)}; {autoscaler_says(pool)}")

    wait_until(f"{wanted} replicas after {because}", there, seconds=240)


def autoscaler_says(pool: Scratch) -> str:
    status = pool.cluster.get("hpa", "pool", pool.namespace).get("status", {})
    conditions = [f"{one['type']}={one['status']} {one['message']}" for one in status.get("conditions", [])]
    return f"HorizontalPodAutoscaler: {status.get('currentMetrics')} {conditions}"
