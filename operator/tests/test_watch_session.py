import ssl
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import ClientSession, web

from workslice_operator.watch_session import watch_session

PODS = "/api/v1/pods"


class Watching:
    """A session at an API that answers everything with one status."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b'{"items":[]}'
        self.told: list[tuple[str, str, bool]] = []
        self.listed_again = 0
        self.url = ""
        self.listed: set[str] = set()

    def session(self) -> ClientSession:
        return watch_session(
            ssl.create_default_context(), {"Authorization": "bearer x"}, self.listed, self.again, self.tell
        )

    def tell(self, path: str, raw: dict[str, Any], there: bool) -> None:
        self.told.append((path, raw["spec"], there))

    def again(self) -> None:
        self.listed_again += 1

    async def ask(self, *paths: str) -> None:
        async with self.session() as session:
            for path in paths:
                await session.get(self.url + path)

    async def heard(self, *events: bytes) -> list[dict[str, Any]]:
        """What kopf hears of a watch that says this."""
        self.body = b"".join(events)
        async with self.session() as session, session.get(f"{self.url}{PODS}?watch=true&resourceVersion=7") as answer:
            text = b"".join([chunk async for chunk in answer.content.iter_chunked(64)])
        return [orjson.loads(line) for line in text.splitlines()]


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


def raw(version: int = 1, spec: str = "a", **metadata: Any) -> dict[str, Any]:
    named = {"name": "chat", "uid": "u", "resourceVersion": str(version), "generation": 1, "managedFields": []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named | metadata, "spec": spec}


def event(kind: str, version: int = 1, spec: str = "a", **metadata: Any) -> bytes:
    return orjson.dumps({"type": kind, "object": raw(version, spec, **metadata)}) + b"\n"


ADDED = event("ADDED", spec='{"type":"ERROR",}')
GONE = b'{"type":"ERROR","object":{"message":"too old","code":410}}\n'
LOST = b'{"type":"ERROR","object":{"message":"no leader","code":500}}\n'


@pytest.mark.parametrize(
    ("said", "heard"), [((ADDED, LOST), ["ADDED"]), ((ADDED, GONE), ["ADDED", "ERROR"]), ((LOST,), [])]
)
async def test_a_watch_that_ends_with_an_error_but_410_ends_without_it(
    watching: Watching, monkeypatch: pytest.MonkeyPatch, said: tuple[bytes, ...], heard: list[str]
) -> None:
    monkeypatch.setattr("workslice_operator.watch_session._PAUSE_SECONDS", 0.0)
    assert [one["type"] for one in await watching.heard(*said)] == heard


async def test_everything_is_told_whole_and_kopf_hears_no_more_than_what_tells_objects_apart(
    watching: Watching,
) -> None:
    (heard,) = await watching.heard(event("ADDED"))
    assert watching.told == [(PODS, "a", True)]
    kept = {"name": "chat", "uid": "u", "resourceVersion": "1", "generation": 1}
    assert heard == {"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": kept}}


async def test_a_list_is_told_and_slimmed_too(watching: Watching) -> None:
    watching.body = orjson.dumps({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [raw(), raw()]})
    async with watching.session() as session, session.get(f"{watching.url}{PODS}?limit=100") as answer:
        document = await answer.json(content_type=None)
    assert watching.told == [(PODS, "a", True)] * 2
    assert [sorted(one) for one in document.pop("items")] == [["apiVersion", "kind", "metadata"]] * 2
    assert document == {"kind": "PodList", "metadata": {"resourceVersion": "9"}}


async def test_the_echo_of_a_status_write_is_told_and_only_moves_the_bookmark_of_kopf(watching: Watching) -> None:
    heard = await watching.heard(
        event("ADDED"),
        event("MODIFIED", 2, "b"),
        event("MODIFIED", 3, annotations={"example.com/note": "x"}),
        event("MODIFIED", 4, annotations={"workslice.dev/paused": "true"}),
        event("MODIFIED", 5, generation=2),
        event("MODIFIED", 6, generation=2, deletionTimestamp="now"),
        event("DELETED", 7, generation=2, deletionTimestamp="now"),
    )
    assert [one["type"] for one in heard] == ["ADDED", "BOOKMARK", "BOOKMARK", *["MODIFIED"] * 3, "DELETED"]
    assert [one["object"]["metadata"]["resourceVersion"] for one in heard] == list("1234567")
    assert [there for _, _, there in watching.told] == [*[True] * 6, False]
    assert watching.told[1][1] == "b"


async def test_after_a_watch_was_broken_nothing_is_taken_for_an_echo(watching: Watching) -> None:
    await watching.heard(event("ADDED"))
    assert [one["type"] for one in await watching.heard(event("MODIFIED", 2))] == ["MODIFIED"]
