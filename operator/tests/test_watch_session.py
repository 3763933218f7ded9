import ssl
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web

from workslice_operator.watch_session import watch_session

PODS = "/api/v1/pods"


class Watching:
    """A session at an API that answers everything with one status."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b""
        self.listed_again = 0
        self.url = ""
        self.listed: set[str] = set()

    def session(self) -> ClientSession:
        return watch_session(ssl.create_default_context(), {"Authorization": "bearer x"}, self.listed, self.again)

    def again(self) -> None:
        self.listed_again += 1

    async def ask(self, *paths: str) -> None:
        async with self.session() as session:
            for path in paths:
                await session.get(self.url + path)


@pytest.fixture
async def watching() -> AsyncIterator[Watching]:
    made = Watching()
    application = web.Application()

    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "bearer x"
        return web.Response(status=made.status, body=made.body)

    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


async def test_a_list_that_is_read_again_tells_that_objects_may_have_gone_unseen(watching: Watching) -> None:
    await watching.ask(f"{PODS}?limit=500", f"{PODS}?limit=500")
    assert watching.listed_again == 1


async def test_also_by_a_session_made_later(watching: Watching) -> None:
    await watching.ask(f"{PODS}?limit=500")
    await watching.ask(f"{PODS}?limit=500")
    assert watching.listed_again == 1


async def test_first_lists_further_pages_and_watches_tell_nothing(watching: Watching) -> None:
    services = "/api/v1/services?limit=500"
    watch = f"{PODS}?watch=true&resourceVersion=7"
    await watching.ask(f"{PODS}?limit=500", f"{PODS}?limit=500&continue=next", watch, watch, services, "/apis", "/apis")
    assert watching.listed_again == 0


async def test_a_list_that_failed_was_none(watching: Watching) -> None:
    watching.status = 503
    await watching.ask(f"{PODS}?limit=500", f"{PODS}?limit=500")
    assert watching.listed_again == 0


ADDED = b'{"type":"ADDED","object":{"message":"{\\"type\\":\\"ERROR\\",}"}}\n'
GONE = b'{"type":"ERROR","object":{"message":"too old","code":410}}\n'
LOST = b'{"type":"ERROR","object":{"message":"no leader","code":500}}\n'


@pytest.mark.parametrize(("said", "heard"), [(ADDED + LOST, ADDED), (ADDED + GONE, ADDED + GONE), (LOST, b"")])
async def test_a_watch_that_ends_with_an_error_but_410_ends_without_it(
    watching: Watching, monkeypatch: pytest.MonkeyPatch, said: bytes, heard: bytes
) -> None:
    monkeypatch.setattr("workslice_operator.watch_session._PAUSE_SECONDS", 0.0)
    watching.body = said
    async with (
        watching.session() as session,
        session.get(f"{watching.url}{PODS}?watch=true&resourceVersion=7") as answer,
    ):
        assert b"".join([chunk async for chunk in answer.content.iter_chunked(1024)]) == heard
