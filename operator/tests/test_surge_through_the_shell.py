"""The reconciler of a pool applies a surge with the change, keeps it at rest without a write, and takes it back when it is in vain."""

from typing import Any

from pool_objects import engine_pod, raw_pool, raw_profile
from pool_world import World

SLICE = "nvidia.com/mig-1g.10gb"


def node(slices: int) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "True"}
    return {
        "kind": "Node",
        "metadata": {"name": "node-1"},
        "status": {"allocatable": {SLICE: str(slices)}, "capacity": {SLICE: str(slices)}, "conditions": [ready]},
    }


def replica(name: str, template: str, placed: bool = True) -> dict[str, Any]:
    """One that holds a slice and is ready, or waits for one."""
    pod = engine_pod(name)
    pod["metadata"]["labels"]["pod-template-hash"] = template
    pod["spec"]["containers"] = [{"name": "engine", "resources": {"limits": {SLICE: "1"}}}]
    if not placed:
        del pod["spec"]["nodeName"]
        said = f"0/1 nodes are available: 1 Insufficient {SLICE}."
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
        pod["status"] = {"phase": "Pending", "conditions": [refused]}
    return pod


def seen_by_its_controller(world: World, replicas: int, updated: int) -> None:
    raw = world.kube.objects["Deployment", "shop", "chat-engine"]
    status = {
        "observedGeneration": raw["metadata"].get("generation", 0),
        "replicas": replicas,
        "updatedReplicas": updated,
    }
    world.kube.put(raw | {"status": status})


def strategy(world: World) -> dict[str, int]:
    spec = world.kube.objects["Deployment", "shop", "chat-engine"]["spec"]
    return dict(spec["strategy"]["rollingUpdate"])


async def changed(slices: int) -> World:
    """A pool of one ready replica on a node with so many slices, just after a change that replaces engines."""
    world = World(raw_pool(), raw_profile(), node(slices))
    await world.reconcile()
    world.kube.put(replica("old", "one"))
    seen_by_its_controller(world, replicas=1, updated=1)
    await world.reconcile(after=10)
    world.start()  # what the nodes have free is read anew
    world.kube.put(raw_profile(generation=2, source="/models/other"))
    await world.reconcile(after=10)
    return world


async def test_the_change_is_applied_with_a_surge_when_a_slice_is_free() -> None:
    assert strategy(await changed(slices=2)) == {"maxSurge": 1, "maxUnavailable": 0}
    assert strategy(await changed(slices=1)) == {"maxSurge": 0, "maxUnavailable": 1}


async def test_a_surge_that_gets_no_slice_is_taken_back_with_one_write() -> None:
    world = await changed(slices=2)
    world.kube.put(replica("new", "two", placed=False))
    world.kube.put(node(1))
    world.start()
    seen_by_its_controller(world, replicas=2, updated=1)
    await world.reconcile(after=10)
    assert world.kube.written("Deployment") == ["apply"]
    assert strategy(world) == {"maxSurge": 0, "maxUnavailable": 1}


async def test_nothing_is_written_when_the_rollout_is_over_and_the_surge_stays_for_the_next_change() -> None:
    world = await changed(slices=2)
    world.kube.remove("Pod", "shop", "old")
    world.kube.put(replica("new", "two"))
    seen_by_its_controller(world, replicas=1, updated=1)
    await world.reconcile(after=10)  # the new template is remembered as ready
    seen_by_its_controller(world, replicas=1, updated=1)
    world.start()
    await world.reconcile(after=10)
    await world.reconcile(after=60)
    assert world.kube.written("Deployment") == []
    assert strategy(world) == {"maxSurge": 1, "maxUnavailable": 0}
