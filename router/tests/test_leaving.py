"""What becomes of requests when the router is told to stop: running, waiting, and those that still come."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from router_under_test import Answer, RunningRouter, chat, pool, post, running_router, until
from scripted_engine import (
    DONE,
    HELLO,
    STREAM_HEAD,
    EngineRequest,
    ScriptedEngine,
    Wire,
    chunk,
    response,
    scripted_engine,
    token,
)

from workslice_router.shutdown import drain

ONE_PLACE = pool(max_concurrent=1)


class Engine:
    """Answers one request for every permit; streams begin at once and never end."""

    def __init__(self) -> None:
        self.permits = asyncio.Semaphore(0)

    async def __call__(self, request: EngineRequest, wire: Wire) -> None:
        if b'"stream": true' in request.body:
            wire.write(STREAM_HEAD + chunk(token("a")))
            return
        await self.permits.acquire()
        wire.write(response(HELLO))


@asynccontextmanager
async def leaving(router: RunningRouter, *, grace: float, patience: float) -> AsyncIterator["asyncio.Task[None]"]:
    """The router after SIGTERM."""
    task = asyncio.create_task(drain(router.data_path, router.server, grace, patience))
    await until(lambda: router.data_path.shutting_down)
    yield task
    await task


async def waiting_behind(router: RunningRouter, engine: ScriptedEngine) -> list["asyncio.Task[Answer]"]:
    running = asyncio.create_task(router.ask())
    await until(lambda: engine.requests)
    waiting = asyncio.create_task(router.ask())
    await until(lambda: router.admission.waiting == 1)
    return [running, waiting]


async def test_a_request_that_waits_in_the_queue_still_gets_its_place_and_its_answer():
    like = Engine()
    async with scripted_engine(like) as engine, running_router(engine, spec=ONE_PLACE) as router:
        tasks = await waiting_behind(router, engine)
        async with leaving(router, grace=0.05, patience=10):
            await until(lambda: not router.server.is_serving(), "the port to close")
            closed_at = router.data_path.loop.time()
            await until(lambda: router.data_path.loop.time() > closed_at + 0.3)
            assert router.admission.waiting == 1
            like.permits.release()
            like.permits.release()
            got = [await task for task in tasks]
    assert [(answer.status, answer.body, answer.headers["connection"]) for answer in got] == [(200, HELLO, "close")] * 2


async def test_what_neither_ran_nor_waited_to_its_end_is_told_so_when_the_time_is_over():
    async with scripted_engine(Engine()) as engine, running_router(engine, spec=ONE_PLACE) as router:
        tasks = await waiting_behind(router, engine)
        async with leaving(router, grace=0.05, patience=0.3):
            got = [await task for task in tasks]
        assert engine.requests[0].gone.is_set()
        assert len(engine.requests) == 1
    assert [(answer.status, answer.error["code"]) for answer in got] == [(503, "shutting_down")] * 2
    assert all(answer.headers["retry-after"] == "1" and answer.complete for answer in got)


async def test_a_stream_that_is_not_over_in_time_ends_with_an_error_event():
    async with scripted_engine(Engine()) as engine, running_router(engine) as router:
        asked = asyncio.create_task(router.ask(chat(stream=True)))
        await until(lambda: engine.requests)
        async with leaving(router, grace=0.05, patience=0.3):
            answer = await asked
        assert engine.requests[0].gone.is_set()
    first, last = answer.body.split(b"\n\n")[:2]
    assert first + b"\n\n" == token("a")
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "shutting_down"
    assert not answer.complete
    assert DONE not in answer.body


@pytest.mark.parametrize("queued", [False, True])
async def test_requests_that_come_while_the_port_is_still_open_are_answered_to_the_end(queued: bool):
    like = Engine()
    async with (
        scripted_engine(like) as engine,
        running_router(engine, spec=ONE_PLACE) as router,
        router.client() as known,
    ):
        like.permits.release()
        await known.send(post(chat()))
        assert (await known.answer()).headers.get("connection") is None
        first = asyncio.create_task(router.ask()) if queued else None
        await until(lambda: len(engine.requests) == 1 + queued)
        async with leaving(router, grace=0.4, patience=10):
            await known.send(post(chat()))
            stranger = asyncio.create_task(router.ask())
            await until(lambda: not router.server.is_serving(), "the port to close")
            for _ in range(3):
                like.permits.release()
            got = [await known.answer(), await stranger, *([await first] if first else [])]
    assert [(answer.status, answer.headers["connection"]) for answer in got] == [(200, "close")] * len(got)


async def test_a_body_that_is_still_being_sent_is_waited_for():
    like = Engine()
    like.permits.release()
    async with scripted_engine(like) as engine, running_router(engine) as router, router.client() as slow:
        whole = post(chat())
        await slow.send(whole[:-5])
        await until(lambda: any(one.held_bytes for one in router.data_path.connections))
        async with leaving(router, grace=0.05, patience=10):
            await until(lambda: not router.server.is_serving(), "the port to close")
            await slow.send(whole[-5:])
            answer = await slow.answer()
    assert (answer.status, answer.body) == (200, HELLO)
