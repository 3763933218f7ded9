"""Asking engines for their gauges, over real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from engine_page import PAGE
from router_under_test import RunningRouter, replicas, running_router, until
from scripted_engine import ScriptedEngine, scripted_engine

from workslice_router import gauge_scrape
from workslice_router.engine_gauges import EngineGauges
from workslice_router.gauge_scrape import GaugeScrape, engine_gauges
from workslice_router.routing_table import Replica

SHOWN = EngineGauges(3, 2, 0.25, 31984)
INTERVAL = 0.03


@contextlib.asynccontextmanager
async def scraping(router: RunningRouter, interval: float = INTERVAL) -> AsyncIterator[GaugeScrape]:
    data_path = router.data_path
    scrape = GaugeScrape(
        router.table, router.admission, data_path.start_task, data_path.loop.time, lambda: 0.5, interval
    )
    task = asyncio.create_task(scrape.run())
    try:
        yield scrape
    finally:
        task.cancel()


def all_of(router: RunningRouter) -> tuple[Replica, ...]:
    (pool,) = router.table.pools.values()
    return pool.replicas


async def test_keeps_what_every_engine_shows() -> None:
    async with scripted_engine() as one, scripted_engine() as two, running_router(one, two) as router:
        one.page = two.page = PAGE
        async with scraping(router):
            await until(lambda: all(replica.gauges == SHOWN for replica in all_of(router)), "both to be known")
            assert [replica.kv_tokens for replica in all_of(router)] == [31984, 31984]
            two.page = PAGE.replace(b"} 3.0\n", b"} 7.0\n")
            await until(lambda: all_of(router)[1].gauges == EngineGauges(7, 2, 0.25, 31984), "the change to be seen")
            assert all_of(router)[1].others_tokens > all_of(router)[0].others_tokens > 0


async def test_an_engine_that_no_longer_tells_becomes_unknown_and_known_again() -> None:
    async with scripted_engine() as engine, running_router(engine) as router:
        engine.page = PAGE
        (replica,) = all_of(router)
        async with scraping(router):
            await until(lambda: replica.gauges is not None, "it to be known")
            engine.page = b""
            await until(lambda: replica.gauges is None, "it to be unknown")
            assert (replica.load.shown, replica.others_tokens) == (None, 0), "there is no other to compare it with"
            assert replica.kv_tokens == 31984, "what its cache holds does not change"
            engine.page = PAGE
            await until(lambda: replica.gauges is not None, "it to be known again")


async def test_our_own_requests_are_not_those_of_others() -> None:
    held = asyncio.Event()

    async def holds(*_: object) -> None:
        await held.wait()

    async with scripted_engine(holds) as engine, running_router(engine) as router:
        engine.page = PAGE
        (replica,) = all_of(router)
        waiting = [asyncio.create_task(router.ask()) for _ in range(4)]
        await until(lambda: replica.in_flight == 4, "the requests to run")
        async with scraping(router):
            await until(lambda: replica.load.shown is not None, "it to be known")
        assert replica.load.shown is not None
        assert replica.load.shown.requests == 1
        for task in waiting:
            task.cancel()


async def test_replicas_that_are_gone_or_not_ready_are_not_asked() -> None:
    async with scripted_engine() as one, scripted_engine() as two, running_router(one, two) as router:
        one.page = two.page = PAGE
        async with scraping(router):
            await until(lambda: one.looks and two.looks, "both to be asked")
            router.table.put_replicas("default/short", replicas(one))
            router.table.commit()
            await until(lambda: not router.data_path._tasks, "the last questions to end")
            before = two.looks, one.looks
            await until(lambda: one.looks > before[1] + 2, "the other to be asked on")
            assert two.looks == before[0]


async def test_leaves_no_task_and_no_connection() -> None:
    async with scripted_engine() as engine, running_router(engine) as router:
        engine.page = PAGE
        tasks = len(asyncio.all_tasks())
        async with scraping(router):
            await until(lambda: engine.looks >= 20, "twenty looks")
            assert len(router.data_path._tasks) <= gauge_scrape.MOST_AT_ONCE
        await until(lambda: len(asyncio.all_tasks()) == tasks, "the tasks to end")
        await until(lambda: not engine.wires, "the connections to end")


async def test_many_engines_that_hang_keep_no_other_from_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauge_scrape, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(gauge_scrape, "MOST_AT_ONCE", 2)
    async with contextlib.AsyncExitStack() as stack:
        hung = [await stack.enter_async_context(listener(lambda _, __: asyncio.sleep(60))) for _ in range(6)]
        engine = await stack.enter_async_context(scripted_engine())
        engine.page = PAGE
        everyone: list[ScriptedEngine] = [*hung, engine]
        router = await stack.enter_async_context(running_router(*everyone))
        await stack.enter_async_context(scraping(router))
        await until(lambda: engine.looks > 2, "the one that answers to be asked again and again")
        assert [replica.gauges for replica in all_of(router)] == [None] * 6 + [SHOWN]


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listener(serve: Serve) -> AsyncIterator[ScriptedEngine]:
    """Something at an address that does not behave like an engine."""
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await serve(reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    found = ScriptedEngine()
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


def writes(data: bytes) -> Serve:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return serve


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def in_pieces(size: int) -> bytes:
    pieces = [PAGE[at : at + size] for at in range(0, len(PAGE), size)]
    return CHUNKED + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


@pytest.mark.parametrize("size", [1, 7, 1000, 10_000])
async def test_a_page_in_chunks_of_any_size_is_read(size: int) -> None:
    async with listener(writes(in_pieces(size) + b"0\r\n\r\n")) as engine:
        assert await engine_gauges("127.0.0.1", engine.port) == SHOWN


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\x00 noise",
        b"HTTP/1.1 503 X\r\ncontent-length: %d\r\n\r\n" % len(PAGE) + PAGE,
        b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (len(PAGE) + 1) + PAGE,
        in_pieces(50),
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    ],
    ids=["nothing", "noise", "an error", "a cut page", "a page without its end", "no gauges"],
)
async def test_what_is_no_whole_page_says_nothing(data: bytes) -> None:
    async with listener(writes(data)) as engine:
        assert await engine_gauges("127.0.0.1", engine.port) is None


async def test_a_page_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauge_scrape, "_LARGEST_PAGE", 100_000)

    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        while True:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()

    async with listener(endless) as engine:
        assert await engine_gauges("127.0.0.1", engine.port) is None


async def test_nobody_there_says_nothing() -> None:
    async with scripted_engine() as engine:
        engine.stop()
        assert await engine_gauges("127.0.0.1", engine.port) is None
    assert await engine_gauges("not a name", 80) is None
