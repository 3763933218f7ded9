import pytest
from pool_objects import raw_pool, raw_profile
from pool_world import KEY, World

from workslice_api.names import PAUSED_ANNOTATION
from workslice_operator.observed import QueueSignal


@pytest.fixture
def world() -> World:
    return World(raw_pool(), raw_profile())


@pytest.mark.parametrize("asleep", [True, False])
async def test_a_request_between_two_looks_wakes_a_pool_that_sleeps_and_no_other(world: World, asleep: bool) -> None:
    scaling = {"mode": "QueueDepth", "maxReplicas": 4, "targetPerReplica": 1, "scaleToZeroAfter": "30m"}
    world.kube.put(raw_pool(scaling=scaling) | {"status": {"scaling": {"asleep": asleep, "asked": 5}}})
    world.demand = QueueSignal(queued=0, running=0, asked=5)
    await world.reconcile()
    assert world.reconciler.any_asleep() is asleep
    world.woken.clear()
    world.demand = QueueSignal(queued=3, running=0, asked=8)
    woken = world.reconciler.wake_asleep()
    assert [*woken] == world.woken == ([KEY] if asleep else [])


async def test_no_request_wakes_a_pool_that_is_paused(world: World) -> None:
    scaling = {"mode": "QueueDepth", "maxReplicas": 4, "scaleToZeroAfter": "30m"}
    paused = raw_pool(scaling=scaling) | {"status": {"scaling": {"asleep": True, "asked": 5}}}
    paused["metadata"]["annotations"] = {PAUSED_ANNOTATION: "true"}
    world.kube.put(paused)
    await world.reconcile()
    assert not world.reconciler.any_asleep()
    world.demand = QueueSignal(queued=3, running=0, asked=8)
    assert world.reconciler.wake_asleep() == frozenset()
