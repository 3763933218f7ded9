import json
from typing import Any

import pytest
from aiohttp import web

from workslice_operator import handlers
from workslice_operator.handlers import kopf_settings, registry_of_handlers
from workslice_operator.keys import Key, pool_key, profile_key
from workslice_operator.kube_api import POOLS, PROFILES, Credentials, Resource


async def credentials() -> Credentials:
    return Credentials("https://api", "/ca", True, "bearer token", None, None)


class Watched:
    """The handlers of one registry, called as kopf calls them."""

    def __init__(self) -> None:
        self.added: list[Key] = []
        self.registry = registry_of_handlers(self.added.append, credentials, lambda: None, lambda *_: None)

    async def event(self, plural: str, type_: str | None = "ADDED", **meta: Any) -> None:
        metadata = {"uid": "u", "name": "chat", "namespace": "shop", "generation": 1} | meta
        for handler in self.registry._watching.get_all_handlers():
            if handler.selector is not None and handler.selector.any_name == plural:
                await handler.fn(event={"type": type_, "object": {}}, meta=metadata)  # type: ignore[call-arg,misc]


async def test_pools_and_profiles_queue_themselves() -> None:
    watched = Watched()
    await watched.event("workspacepools")
    await watched.event("workspaceprofiles", uid="v", name="small")
    assert watched.added == [pool_key("shop", "chat"), profile_key("small")]


@pytest.mark.parametrize("before", ["", "/clusters/one"])
async def test_the_session_of_kopf_tells_pools_and_profiles_wherever_the_api_is(before: str) -> None:
    raw = {"metadata": {"name": "chat", "uid": "u", "resourceVersion": "1"}}

    async def answer(request: web.Request) -> web.Response:
        said = {"type": "DELETED", "object": raw} if "watch" in request.query else {"items": [raw]}
        return web.Response(body=json.dumps(said) + "\n", content_type="application/json")

    application = web.Application()
    application.router.add_get(before + "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server = f"http://127.0.0.1:{runner.addresses[0][1]}{before}"

    async def held() -> Credentials:
        return Credentials(server, None, True, None, None, None)

    told: list[tuple[Resource, bool]] = []
    registry = registry_of_handlers(
        lambda _: None, held, lambda: None, lambda resource, _, there: told.append((resource, there))
    )
    (login,) = registry._activities.get_all_handlers()
    session: Any = await login.fn()  # type: ignore[call-arg,misc]
    for resource in (POOLS, PROFILES):
        for query in ("limit=100", "watch=true"):
            response = await session.aiohttp_session.get(f"{server}{resource.path()}?{query}")
            async for _ in response.content.iter_chunked(1024):
                pass
    await session.aiohttp_session.close()
    await runner.cleanup()
    assert told == [(POOLS, True), (POOLS, False), (PROFILES, True), (PROFILES, False)]


async def test_kopf_gets_no_reason_to_write_on_objects() -> None:
    registry = Watched().registry
    assert registry._changing.get_all_handlers() == []
    assert registry._spawning.get_all_handlers() == []
    assert registry._webhooks.get_all_handlers() == []


def test_kopf_outlasts_an_outage_of_a_day_and_joins_no_peers() -> None:
    settings = kopf_settings()
    assert sum(settings.networking.error_backoffs) > 86_000  # type: ignore[arg-type]
    assert max(settings.networking.error_backoffs) <= 10  # type: ignore[arg-type]
    assert settings.peering.standalone
    assert settings.scanning.disabled
    assert "kopf" not in settings.persistence.finalizer


async def test_credentials_that_the_api_has_refused_are_tried_again_after_a_while_and_new_ones_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(handlers.asyncio, "sleep", wait)
    tokens = iter(["bearer old", "bearer old", "bearer new"])

    async def held() -> Credentials:
        return Credentials("https://api", None, True, next(tokens), None, None)

    registry = registry_of_handlers(lambda _: None, held, lambda: None, lambda *_: None)
    (login,) = registry._activities.get_all_handlers()
    for _ in range(3):
        session: Any = await login.fn()  # type: ignore[call-arg,misc]
        await session.aiohttp_session.close()
    first, again, new = waits
    assert (first, new) == (0, 0)
    assert 0 < again <= 10
