from typing import Any

from fake_kube import FakeKube
from pool_objects import raw_pool

from workslice_api.pool import WorkspacePool
from workslice_operator.keys import Key, pool_key
from workslice_operator.model_claims import ModelClaims
from workslice_operator.readable import PoolList


def pool(namespace: str, created: str, **fields: Any) -> dict[str, Any]:
    raw = raw_pool(namespace=namespace, uid=f"uid-{namespace}", **fields)
    raw["metadata"]["creationTimestamp"] = f"2026-01-{created}T00:00:00Z"
    return raw


def model(raw: dict[str, Any]) -> WorkspacePool:
    return WorkspacePool.model_validate(raw)


FIRST, SECOND = pool("first", "01"), pool("second", "02")


async def test_the_later_claim_is_in_conflict_and_the_earlier_is_not() -> None:
    claims = ModelClaims(PoolList(FakeKube(FIRST, SECOND)), {}, lambda _: None)
    conflict = await claims.conflict(model(SECOND))
    assert conflict is not None
    assert (conflict.owner_namespace, conflict.owner_pool) == ("first", "chat")
    assert await claims.conflict(model(FIRST)) is None


async def test_an_assigned_name_beats_age() -> None:
    claims = ModelClaims(PoolList(FakeKube(FIRST, SECOND)), {"tiny": "second"}, lambda _: None)
    assert await claims.conflict(model(SECOND)) is None
    assert await claims.conflict(model(FIRST)) is not None


async def test_a_pool_is_never_judged_on_a_list_that_lacks_its_version() -> None:
    kube = FakeKube(FIRST)
    claims = ModelClaims(PoolList(kube), {}, lambda _: None)
    await claims.conflict(model(FIRST))
    kube.put(SECOND)
    assert await claims.conflict(model(SECOND)) is not None
    renamed = pool("second", "02", generation=2, model="own")
    kube.put(renamed)
    assert await claims.conflict(model(renamed)) is None


async def test_many_pools_share_one_list() -> None:
    kube = FakeKube(*(pool(f"team-{number:02}", "01", model=f"m{number}") for number in range(20)))
    claims = ModelClaims(PoolList(kube), {}, lambda _: None)
    for raw in list(kube.objects.values()):
        await claims.conflict(model(raw))
    assert kube.reads == 1


async def test_the_end_of_a_claim_wakes_who_waited_for_it() -> None:
    kube, woken = FakeKube(FIRST, SECOND), list[Key]()
    claims = ModelClaims(PoolList(kube), {}, woken.append)
    await claims.conflict(model(SECOND))
    woken.clear()
    kube.remove("WorkspacePool", "first", "chat")
    await claims.pool_gone()
    assert woken == [pool_key("second", "chat")]
    assert await claims.conflict(model(SECOND)) is None


async def test_a_new_alias_of_an_older_pool_wakes_the_pool_that_loses_the_name() -> None:
    kube, woken = FakeKube(FIRST, pool("second", "02", model="other")), list[Key]()
    claims = ModelClaims(PoolList(kube), {}, woken.append)
    await claims.conflict(model(FIRST))
    aliased = pool("first", "01", generation=2, aliases=["other"])
    kube.put(aliased)
    await claims.conflict(model(aliased))
    assert woken == [pool_key("second", "chat")]


async def test_a_fallback_is_served_by_another_pool_of_the_namespace_or_not_at_all() -> None:
    falls_back = pool("first", "01", degrade={"fallbackModel": "spare"})
    kube, woken = FakeKube(falls_back, pool("second", "02", model="spare")), list[Key]()
    claims = ModelClaims(PoolList(kube), {}, woken.append)
    await claims.conflict(model(falls_back))
    assert claims.unserved_fallback(model(falls_back)) == "spare"
    kube.remove("WorkspacePool", "second", "chat")
    kube.put(pool("first", "03", name="spare", model="other", aliases=["spare"]))
    woken.clear()
    await claims.pool_gone()
    assert claims.unserved_fallback(model(falls_back)) == ""
    assert pool_key("first", "chat") in woken


async def test_a_pool_is_no_fallback_of_itself() -> None:
    falls_back = pool("first", "01", aliases=["me-too"], degrade={"fallbackModel": "me-too"})
    claims = ModelClaims(PoolList(FakeKube(falls_back)), {}, lambda _: None)
    await claims.conflict(model(falls_back))
    assert claims.unserved_fallback(model(falls_back)) == "me-too"
