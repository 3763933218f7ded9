import pytest
from pool_objects import engine_pod, raw_pool, raw_profile
from pool_world import World


@pytest.mark.parametrize("at_once", [0, 1])
async def test_as_many_pools_are_rolled_at_once_as_the_operator_is_told(at_once: int) -> None:
    world = World(raw_pool(), raw_profile(), engine_pod("chat-engine-1"))
    world.start(rolled_at_once=at_once)
    await world.reconcile()
    running = world.kube.objects["Deployment", "shop", "chat-engine"]
    seen = {"observedGeneration": running["metadata"].get("generation", 0), "replicas": 1, "updatedReplicas": 1}
    world.kube.put(running | {"status": seen})
    await world.reconcile()
    world.kube.put(raw_profile(generation=2, source="/models/other"))
    await world.reconcile()
    types = [one.type for one in world.pool.status.conditions]
    assert ("Outdated" in types) is (at_once == 0)
