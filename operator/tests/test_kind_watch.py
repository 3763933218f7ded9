import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from eventually import eventually

from workslice_operator import kind_watch
from workslice_operator.kept_fields import KEPT
from workslice_operator.kind_watch import KindWatch
from workslice_operator.kube_api import PODS, Gone, KubeError, Object, Refused, Resource
from workslice_operator.object_store import ObjectStore


def pod(name: str, version: int = 1, **status: Any) -> Object:
    metadata = {"namespace": "shop", "name": name, "uid": name, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {}, "status": status}


class Api:
    """Lists what the test put there, and tells what it queues: events, errors, or None for the end of a watch."""

    def __init__(self, *items: Object) -> None:
        self.items = list(items)
        self.refusal: KubeError | None = None
        self.told: asyncio.Queue[tuple[str, Object] | KubeError | None] = asyncio.Queue()
        self.may_list = asyncio.Event()
        self.may_list.set()
        self.may_watch = asyncio.Event()
        self.may_watch.set()
        self.lists = 0
        self.watched_from: list[str] = []

    async def page(self, resource: Resource, labels: str, token: str) -> Object:
        if self.refusal is not None:
            raise self.refusal
        await self.may_list.wait()
        self.lists += 1
        at = int(token or 0)
        further = {"continue": str(at + 1)} if at + 1 < len(self.items) else {}
        return {"items": self.items[at : at + 1], "metadata": {"resourceVersion": "10", **further}}

    @contextlib.asynccontextmanager
    async def watch(self, resource: Resource, labels: str, version: str) -> AsyncIterator[AsyncIterator[Any]]:
        self.watched_from.append(version)
        await self.may_watch.wait()
        yield self._events()

    async def _events(self) -> AsyncIterator[tuple[str, Object]]:
        while (one := await self.told.get()) is not None:
            if isinstance(one, KubeError):
                raise one
            yield one


class Followed:
    def __init__(self, api: Api) -> None:
        self.api = api
        self.heard: list[tuple[str, bool]] = []
        self.watch = KindWatch(api, PODS, "", ObjectStore(KEPT[PODS]), self._changed)
        self.task = asyncio.create_task(self.watch.run())

    def _changed(self, raw: Object, there: bool) -> None:
        self.heard.append((raw["metadata"]["name"], there))


@pytest.fixture
async def followed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Followed]:
    monkeypatch.setattr(kind_watch, "_PAUSE", 0.0)
    monkeypatch.setattr(kind_watch, "_FIRST_BACKOFF", 0.01)
    followed = Followed(Api(pod("a"), pod("b")))
    yield followed
    followed.task.cancel()


async def test_everything_that_is_listed_is_told_page_by_page(followed: Followed) -> None:
    await followed.watch.tried.wait()
    assert followed.watch.fresh
    assert followed.heard == [("a", True), ("b", True)]
    assert followed.api.lists == 2


async def test_changes_are_told_and_echoes_are_not(followed: Followed) -> None:
    await followed.watch.tried.wait()
    followed.heard.clear()
    followed.api.told.put_nowait(("MODIFIED", pod("a", 11)))
    followed.api.told.put_nowait(("MODIFIED", pod("a", 12, phase="Running")))
    followed.api.told.put_nowait(("DELETED", pod("b", 13)))
    await eventually(lambda: len(followed.heard) == 2)
    assert followed.heard == [("a", True), ("b", False)]


async def test_an_ended_watch_goes_on_from_the_last_version_bookmarks_included(followed: Followed) -> None:
    await followed.watch.tried.wait()
    followed.api.told.put_nowait(("BOOKMARK", {"metadata": {"resourceVersion": "50"}}))
    followed.api.told.put_nowait(None)
    await eventually(lambda: len(followed.api.watched_from) == 2)
    assert followed.api.watched_from == ["10", "50"]
    assert followed.api.lists == 2


async def test_what_a_merely_ended_watch_told_stays_fresh_until_the_next_goes_on(followed: Followed) -> None:
    await followed.watch.tried.wait()
    followed.api.may_watch.clear()
    followed.api.told.put_nowait(None)
    await eventually(lambda: len(followed.api.watched_from) == 2)
    assert followed.watch.fresh


async def test_what_went_while_nobody_watched_is_told_after_the_next_list(followed: Followed) -> None:
    await followed.watch.tried.wait()
    followed.heard.clear()
    followed.api.items = [pod("b")]
    followed.api.told.put_nowait(Gone(410, "too old"))
    await eventually(lambda: followed.heard == [("a", False)])
    assert followed.watch.store.get("shop", "a") is None


async def test_it_is_not_fresh_from_when_it_must_begin_anew_until_it_has(followed: Followed) -> None:
    await followed.watch.tried.wait()
    followed.api.may_list.clear()
    followed.api.told.put_nowait(Gone(410, "too old"))
    await eventually(lambda: not followed.watch.fresh)
    followed.api.may_list.set()
    await eventually(lambda: followed.watch.fresh)
    assert followed.api.lists == 4


async def test_it_is_not_fresh_while_the_api_refuses_and_recovers_by_itself(
    followed: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    await followed.watch.tried.wait()
    followed.api.refusal = Refused(403, "pods is forbidden")
    followed.api.told.put_nowait(Gone(410, "too old"))
    await eventually(lambda: not followed.watch.fresh)
    await eventually(lambda: "pods is forbidden" in caplog.text)
    followed.api.refusal = None
    await eventually(lambda: followed.watch.fresh)
    assert caplog.text.count("pods is forbidden") == 1


async def test_a_list_replaces_newer_versions_from_before_a_restore_of_etcd(followed: Followed) -> None:
    await followed.watch.tried.wait()
    followed.heard.clear()
    followed.api.items = [pod("a", 5, phase="Running"), pod("b")]
    followed.api.told.put_nowait(("MODIFIED", pod("a", 11, phase="Failed")))
    followed.api.told.put_nowait(Gone(410, "too old"))
    await eventually(lambda: followed.heard == [("a", True), ("a", True)])
    assert followed.watch.store.versions()["shop", "a"] == ("a", 5)
