"""A pool whose free fields are nested without end must stop nobody else's."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession, web
from fake_kube import FakeKube
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from pool_objects import raw_pool, raw_profile
from pool_world import World

from workslice_api.names import ConditionType
from workslice_operator.kept_fields import KEPT
from workslice_operator.kube import KubeClient
from workslice_operator.kube_api import POOLS
from workslice_operator.object_store import ObjectStore
from workslice_operator.readable import PoolList
from workslice_operator.watch_session import watch_session

POOL = '{"metadata":{"name":"deep","namespace":"shop","uid":"u","resourceVersion":"2"},"spec":{"template":{"affinity":%s}}}'


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.fixture(params=[300, 1_100, 9_000])
async def url(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    deep = POOL % ('{"a":' * request.param + "{}" + "}" * request.param)

    async def answer(asked: web.Request) -> web.Response:
        listed = '{"metadata":{"resourceVersion":"3"},"items":[%s]}'
        return web.Response(text=('{"type":"ADDED","object":%s}\n' if "watch" in asked.query else listed) % deep)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_the_client_reads_it_and_the_store_keeps_it(url: str) -> None:
    rest = RESTClientObject(Configuration(host=url))  # type: ignore[no-untyped-call]
    kube, store = KubeClient(Configuration(host=url), rest), ObjectStore(KEPT[POOLS])
    (listed,) = (await kube.page(POOLS, "", ""))["items"]
    async with kube.watch(POOLS, "", "1") as events:
        told = [raw async for _, raw in events]
    await rest.close()
    for raw in (listed, *told):
        store.put(raw)
        assert store.get("shop", "deep")
    assert len(told) == 1


async def test_kopf_hears_of_it(url: str) -> None:
    store = ObjectStore(KEPT[POOLS])
    context: Any = None
    session: ClientSession = watch_session(
        context, {}, set(), lambda: None, lambda path, raw, there: store.put(raw) and None
    )
    async with session:
        for query in ("limit=100", "watch=true"):
            response = await session.get(f"{url}{POOLS.path()}?{query}")
            async for _ in response.content.iter_chunked(1024):
                pass
            assert len(store) == 1


async def test_the_other_pools_are_listed() -> None:
    kube = FakeKube(raw_pool("a"), raw_pool("b", template={"affinity": nested(270)}))
    assert [one.metadata.name for one in await PoolList(kube)()] == ["a"]


@pytest.mark.parametrize("levels", [40, 270])
async def test_its_status_says_what_is_wrong(levels: int) -> None:
    world = World(raw_pool(template={"affinity": nested(levels)}), raw_profile())
    assert await world.reconcile() is None
    status = world.kube.objects["WorkspacePool", "shop", "chat"]["status"]
    (said,) = [one["message"] for one in status["conditions"] if one["type"] == ConditionType.DEGRADED]
    assert "spec.template.affinity: Value error, nested deeper than 32 levels" in said
    assert world.kube.written("Deployment") == []


async def test_what_a_pod_can_have_is_accepted() -> None:
    world = World(raw_pool(template={"affinity": nested(31)}), raw_profile())
    await world.reconcile()
    assert world.kube.written("Deployment") == ["apply"]
