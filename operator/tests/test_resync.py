import asyncio
from collections.abc import Callable, Iterable
from functools import partial

import pytest
from eventually import eventually
from fake_kube import FakeKube
from pool_objects import raw_pool, raw_profile

from workslice_operator import resync as resync_module
from workslice_operator.keys import Key, pool_key, profile_key
from workslice_operator.kube_api import POOLS, PROFILES, Resource, Unavailable
from workslice_operator.object_store import Name
from workslice_operator.resync import Resync


def resync_of(kube: FakeKube, add: Callable[[Key], None], known: Callable[[], Iterable[Key]]) -> Resync:
    async def names(resource: Resource) -> list[Name]:
        raws = await kube.list(resource)
        return [(one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in raws]

    return Resync(partial(names, POOLS), partial(names, PROFILES), add, known)


async def test_everything_there_and_everything_remembered_is_queued() -> None:
    added: list[Key] = []
    gone = pool_key("shop", "gone")
    resync = resync_of(FakeKube(raw_pool(), raw_profile()), added.append, lambda: [gone])
    done = asyncio.Event()
    running = asyncio.create_task(resync.run(done.set))
    await asyncio.wait_for(done.wait(), timeout=5)
    assert set(added) == {pool_key("shop", "chat"), profile_key("small"), gone}
    running.cancel()


async def test_a_failure_is_tried_again_soon_and_makes_it_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync_module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(resync_module, "STALE_SECONDS", 0.1)
    kube = FakeKube(raw_pool())
    kube.failures["list", "WorkspacePool"] = Unavailable(0, "away")
    added: list[Key] = []
    resync = resync_of(kube, added.append, list)
    assert resync.fresh
    running = asyncio.create_task(resync.run(lambda: None))
    await eventually(lambda: not resync.fresh)
    assert added == []
    kube.failures.clear()
    await eventually(lambda: resync.fresh and added)
    running.cancel()


async def test_it_can_be_asked_for_now() -> None:
    added: list[Key] = []
    resync = resync_of(FakeKube(raw_pool()), added.append, list)
    running = asyncio.create_task(resync.run(lambda: None))
    await eventually(lambda: len(added) == 1)
    resync.soon()
    await eventually(lambda: len(added) == 2)
    running.cancel()


async def test_later_ones_leave_the_pools_alone_that_have_not_come_or_gone_unseen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resync_module, "RESYNC_SECONDS", 0.01)
    kube, added, known = FakeKube(raw_pool(), raw_profile()), list[Key](), [pool_key("shop", "chat")]
    running = asyncio.create_task(resync_of(kube, added.append, lambda: known).run(lambda: None))
    await eventually(lambda: len(added) >= 4)
    assert added.count(pool_key("shop", "chat")) == 1
    assert added.count(profile_key("small")) > 1
    kube.put(raw_pool("unseen"))
    known.append(pool_key("shop", "gone"))
    await eventually(lambda: {pool_key("shop", "unseen"), pool_key("shop", "gone")} <= set(added))
    running.cancel()
