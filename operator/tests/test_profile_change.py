from collections.abc import Mapping
from typing import Any

import pytest
from pool_objects import raw_pool, raw_profile
from pool_world import World

from workslice_operator.keys import profile_key
from workslice_operator.kube_api import Object, Resource


@pytest.fixture
def world() -> World:
    return World(raw_pool(), raw_profile())


async def test_a_pool_that_changes_its_profile_tells_both(world: World) -> None:
    await world.reconcile()
    world.kube.put(raw_pool(generation=2, profileRef={"name": "large"}))
    await world.reconcile()
    assert world.woken == [profile_key("small"), profile_key("large")]


async def test_so_does_one_that_changes_it_while_it_is_looked_at(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = world.kube.apply

    async def edited_meanwhile(resource: Resource, manifest: Mapping[str, Any]) -> Object:
        stored = world.kube.objects["WorkspacePool", "shop", "chat"]
        changed = raw_pool(generation=2, profileRef={"name": "large"})
        world.kube.put({**changed, "metadata": {**stored["metadata"], "generation": 2}})
        return await apply(resource, manifest)

    with monkeypatch.context() as patched:
        patched.setattr(world.kube, "apply", edited_meanwhile)
        await world.reconcile()
    told = list(world.woken)
    await world.reconcile()
    assert {profile_key("small"), profile_key("large")} <= {*told[1:], *world.woken}
