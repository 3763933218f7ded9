import asyncio

from workslice_operator.kube_api import POOLS, Object, Resource
from workslice_operator.own_kind import OwnKind


def pool(name: str, version: int, uid: str = "") -> Object:
    metadata = {"namespace": "shop", "name": name, "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {}}


class Api:
    """Lists one object a page; the test may let something happen meanwhile."""

    def __init__(self, *items: Object) -> None:
        self.items = list(items)
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def page(self, resource: Resource, labels: str, token: str) -> Object:
        items, at = list(self.items), int(token or 0)
        await self.go_on.wait()
        further = {"continue": str(at + 1)} if at + 1 < len(items) else {}
        return {"items": items[at : at + 1], "metadata": further}


def kind_of(api: Api) -> OwnKind:
    return OwnKind(api, POOLS)  # type: ignore[arg-type]  # of the watch only its list is used


async def test_it_is_fresh_once_everything_was_listed() -> None:
    kind = kind_of(Api(pool("a", 1), pool("b", 2)))
    assert not kind.fresh
    assert await kind.listed() == {("shop", "a"), ("shop", "b")}
    assert kind.fresh
    assert len(kind.store) == 2


async def test_what_went_unseen_is_gone_after_the_next_list() -> None:
    api = Api(pool("a", 1), pool("b", 2))
    kind = kind_of(api)
    await kind.listed()
    api.items.pop()
    await kind.listed()
    assert kind.store.get("shop", "b") is None


async def test_what_came_while_the_api_answered_stays() -> None:
    api = Api(pool("a", 1))
    kind = kind_of(api)
    kind.told(pool("b", 2), True)
    api.go_on.clear()
    listing = asyncio.create_task(kind.listed())
    await asyncio.sleep(0)
    kind.told(pool("b", 3), False)
    kind.told(pool("b", 4, uid="another"), True)
    kind.told(pool("c", 5), True)
    api.go_on.set()
    await listing
    assert kind.store.get("shop", "b") is not None
    assert kind.store.get("shop", "c") is not None


class Meanwhile(Api):
    """While it answers, after it has looked, something is told."""

    def __init__(self, *items: Object) -> None:
        super().__init__(*items)
        self.tell: list[tuple[Object, bool]] = []
        self.kind = kind_of(self)

    async def page(self, resource: Resource, labels: str, token: str) -> Object:
        page = await super().page(resource, labels, token)
        while self.tell:
            self.kind.told(*self.tell.pop(0))
        return page


async def test_a_pool_that_goes_while_the_api_answers_stays_gone() -> None:
    api = Meanwhile(pool("a", 1))
    await api.kind.listed()
    api.tell = [(pool("a", 2), False)]
    await api.kind.listed()
    assert api.kind.store.get("shop", "a") is None


async def test_a_pool_that_came_and_went_while_the_api_answered_stays_gone() -> None:
    api = Meanwhile(pool("a", 1))
    api.tell = [(pool("a", 2), False)]
    await api.kind.listed()
    assert api.kind.store.get("shop", "a") is None


async def test_a_pool_recreated_while_the_api_answers_is_the_new_one() -> None:
    api = Meanwhile(pool("a", 1, uid="old"))
    await api.kind.listed()
    api.tell = [(pool("a", 2, uid="old"), False), (pool("a", 3, uid="new"), True)]
    await api.kind.listed()
    assert api.kind.store.uids() == {("shop", "a"): "new"}


async def test_what_is_listed_replaces_newer_versions_from_before_a_restore_of_etcd() -> None:
    api = Meanwhile(pool("a", 100))
    await api.kind.listed()
    api.items = [pool("a", 50)]
    await api.kind.listed()
    assert api.kind.store.versions() == {("shop", "a"): ("a", 50)}
