import asyncio
from typing import Any

import pytest
from router_under_test import chat, pool, post, running_router, until
from scripted_engine import (
    STREAM_HEAD,
    EngineRequest,
    Wire,
    chunk,
    scripted_engine,
    token,
)

from workslice_router.engine_connection import EngineConnection, open_connection


async def never(request: EngineRequest, wire: Wire) -> None:
    """Takes the request and says nothing."""


@pytest.mark.parametrize("streams", [False, True])
async def test_a_client_that_leaves_while_it_waits_for_the_answer_frees_the_engine_at_once(streams: bool):
    async with scripted_engine(never) as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat(stream=streams)))
        await until(lambda: engine.requests)
        client.leave()
        async with asyncio.timeout(1):
            await engine.requests[0].gone.wait()
        await until(router.at_rest)


async def test_a_client_that_closes_politely_has_left_too():
    async with scripted_engine(never) as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat()))
        await until(lambda: engine.requests)
        client.writer.close()
        async with asyncio.timeout(1):
            await engine.requests[0].gone.wait()


async def test_a_client_that_leaves_in_the_middle_of_a_stream_frees_the_engine_at_once():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(token("a")))

    async with scripted_engine(behaviour) as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat(stream=True)))
        await client.head()
        client.leave()
        async with asyncio.timeout(1):
            await engine.requests[0].gone.wait()


@pytest.mark.parametrize("streams", [False, True])
async def test_a_client_that_leaves_in_the_middle_of_an_answer_that_is_no_stream_frees_the_engine_at_once(
    streams: bool,
):
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{")

    async with scripted_engine(behaviour) as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat(stream=streams)))
        await client.head()
        client.leave()
        async with asyncio.timeout(1):
            await engine.requests[0].gone.wait()


@pytest.mark.parametrize("streams", [False, True])
async def test_a_client_that_leaves_the_queue_never_reaches_an_engine(streams: bool):
    async with scripted_engine(never) as engine, running_router(engine, spec=pool(max_concurrent=1)) as router:
        async with router.client() as running, router.client() as waiting:
            await running.send(post(chat()))
            await until(lambda: engine.requests)
            await waiting.send(post(chat(stream=streams)))
            await until(lambda: router.admission.waiting == 1)
            waiting.leave()
            async with asyncio.timeout(1):
                await until(lambda: router.admission.waiting == 0)
            assert router.admission.queued_bytes == 0
            running.leave()
        await until(router.at_rest)
        assert len(engine.requests) == 1


@pytest.mark.interpreted
async def test_a_client_that_leaves_while_the_router_connects_sends_nothing_to_the_engine(
    monkeypatch: pytest.MonkeyPatch,
):
    connected = asyncio.Event()

    async def slowly(*arguments: Any) -> EngineConnection:
        await connected.wait()
        return await open_connection(*arguments)

    monkeypatch.setattr("workslice_router.attempt.open_connection", slowly)
    async with scripted_engine() as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat()))
        await until(lambda: router.admission.in_flight)
        client.leave()
        await until(router.at_rest)
        connected.set()
        await until(lambda: len(router.data_path.idle) == 1, "the connection to be kept for the next request")
        assert (await router.ask()).status == 200
    assert (len(engine.requests), engine.opened) == (1, 1)


async def test_a_client_that_stops_reading_is_cut_off_after_the_idle_timeout():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(token("x" * 60_000)) * 400)

    async with scripted_engine(behaviour) as engine, running_router(engine, idle_timeout=0.4) as router:
        async with router.client() as client:
            await client.send(post(chat(stream=True)))
            await until(lambda: engine.requests)
            async with asyncio.timeout(5):
                await engine.requests[0].gone.wait()
        await until(lambda: not router.data_path.connections)
