from dataclasses import dataclass

from fake_kube import FakeKube
from pool_objects import raw_pool

from workslice_operator.kept_fields import KEPT
from workslice_operator.kube_api import POOLS
from workslice_operator.object_store import ObjectStore
from workslice_operator.readable import PoolList


@dataclass
class Own:
    store: ObjectStore
    fresh: bool = True


async def test_a_pool_is_parsed_again_only_when_it_has_changed() -> None:
    kube = FakeKube(raw_pool("a"), raw_pool("b"))
    pools = PoolList(kube)
    first = {pool.metadata.name: pool for pool in await pools()}
    kube.put(raw_pool("b", model="other"))
    second = {pool.metadata.name: pool for pool in await pools()}
    assert second["a"] is first["a"]
    assert second["b"].spec.model == "other"


async def test_whoever_parses_a_pool_gets_the_same_object_until_it_changes() -> None:
    kube = FakeKube(raw_pool())
    pools = PoolList(kube)
    raw = kube.objects["WorkspacePool", "shop", "chat"]
    assert pools.parse(raw) is pools.parse(raw)
    assert (await pools())[0] is pools.parse(raw)
    changed = kube.put(raw_pool(model="other"))
    assert pools.parse(changed).spec.model == "other"


async def test_what_kopf_tells_costs_no_request() -> None:
    kube = FakeKube(raw_pool())
    own = Own(ObjectStore(KEPT[POOLS]))
    own.store.put(kube.objects["WorkspacePool", "shop", "chat"])
    pools = PoolList(kube, own)
    assert [pool.metadata.name for pool in await pools()] == ["chat"]
    own.store.drop(("shop", "chat"))
    assert await pools() == []
    assert kube.reads == 0


async def test_until_all_pools_have_been_told_they_are_listed() -> None:
    kube = FakeKube(raw_pool())
    pools = PoolList(kube, Own(ObjectStore(KEPT[POOLS]), fresh=False))
    assert [pool.metadata.name for pool in await pools()] == ["chat"]


async def test_one_that_cannot_be_read_does_not_stop_the_others() -> None:
    assert [pool.metadata.name for pool in await PoolList(FakeKube(raw_pool("a"), raw_pool("b", model=7)))()] == ["a"]


async def test_of_a_pool_that_changed_only_what_changed_is_parsed_again() -> None:
    kube = FakeKube(raw_pool())
    pools = PoolList(kube)
    first = pools.parse(kube.objects["WorkspacePool", "shop", "chat"])
    status = {"status": {"readyReplicas": 2}}
    second = pools.parse(kube.put(raw_pool() | status))
    assert second.spec is first.spec
    assert second.status.ready_replicas == 2
    assert second == type(second).model_validate(kube.objects["WorkspacePool", "shop", "chat"])
    third = pools.parse(kube.put(raw_pool(model="other") | status))
    assert third.spec.model == "other"
    fourth = pools.parse(kube.put(raw_pool(model="other") | status))
    assert fourth.status is third.status
    assert fourth.metadata.resource_version != third.metadata.resource_version
