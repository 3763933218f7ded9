from typing import Any

import pytest
from pool_facts import make_observed
from pool_objects import engine_pod, raw_pool, raw_profile
from pool_world import World

from workslice_api.names import POOL_LABEL
from workslice_operator.keys import pool_key


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


def deployment_of(pool: str, updated: int, *conditions: dict[str, str]) -> dict[str, Any]:
    status = {"replicas": 1, "updatedReplicas": updated, "conditions": list(conditions)}
    return {"metadata": {"name": pool, "namespace": "shop", "labels": {POOL_LABEL: pool}}, "status": status}


async def test_a_new_process_counts_the_rollouts_that_another_one_has_begun_before_it_looks_at_any_pool() -> None:
    world = World(raw_pool(), raw_profile(), engine_pod("chat-engine-1"))
    await world.reconcile()
    running = world.kube.objects["Deployment", "shop", "chat-engine"]
    seen = {"observedGeneration": running["metadata"].get("generation", 0), "replicas": 1, "updatedReplicas": 1}
    world.kube.put(running | {"status": seen})
    await world.reconcile()
    world.start(rolled_at_once=1)
    world.kube.put(raw_profile(generation=2, source="/models/other"))
    stalled = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    world.woken.clear()
    others = deployment_of("rolls", 0), deployment_of("done", 1), deployment_of("stalled", 0, stalled)
    world.rolling.remember([*others, {"metadata": {"name": "of nobody"}}])
    assert world.woken == [pool_key("shop", "rolls")]
    await world.reconcile()
    assert world.reason("Outdated") == "RolloutWaits"
    world.rolling.forget(pool_key("shop", "rolls"))
    await world.reconcile()
    assert "Outdated" not in [one.type for one in world.pool.status.conditions]


async def test_a_pool_that_cannot_be_read_keeps_no_turn() -> None:
    pool = raw_pool()
    world = World(pool | {"spec": pool["spec"] | {"model": 7}})
    world.start(rolled_at_once=1)
    world.rolling.remember([deployment_of("chat", 0)])
    another = pool_key("shop", "another")
    assert not world.rolling.may_roll(another, make_observed(), 0.0)
    await world.reconcile()
    assert world.rolling.may_roll(another, make_observed(), 0.0)
