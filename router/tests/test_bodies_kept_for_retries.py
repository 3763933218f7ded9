"""What happens to the bodies that are kept for another attempt, when a router holds too much."""

import asyncio

from router_under_test import RunningRouter, chat, pool, post, running_router, until
from scripted_engine import HELLO, EngineRequest, Wire, response, scripted_engine

LIMIT = 1_000_000
ROOM = {"class_tokens": 10**7, "context_tokens": 10**7}


class Engine:
    """Answers, or breaks the connection, when the test says so."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.dies = False

    async def __call__(self, request: EngineRequest, wire: Wire) -> None:
        await self.go_on.wait()
        if self.dies:
            wire.abort()
        else:
            wire.write(response(HELLO))


def held(router: RunningRouter) -> list[int]:
    return sorted(exchange.held_bytes for exchange in router.data_path.exchanges)


async def test_the_largest_body_that_runs_is_forgotten_first_and_nobody_is_refused():
    engine_like = Engine()
    async with (
        scripted_engine(engine_like) as engine,
        running_router(engine, spec=pool(**ROOM), max_held_bytes=LIMIT) as router,
    ):
        large, small = chat("l" * 900_000), chat("s" * 300_000)
        asked = [asyncio.create_task(router.ask(body)) for body in (large, small)]
        await until(lambda: len(engine.requests) == 2)
        await until(lambda: held(router) == [0, len(small)], "the larger body to be forgotten")
        engine_like.go_on.set()
        assert [(await one).body for one in asked] == [HELLO] * 2


async def test_a_request_whose_body_is_forgotten_fails_with_its_replica():
    engine_like = Engine()
    async with (
        scripted_engine(engine_like) as one,
        scripted_engine(engine_like) as two,
        running_router(one, two, spec=pool(**ROOM), max_held_bytes=LIMIT) as router,
    ):
        asked = asyncio.create_task(router.ask(chat("x" * 1_500_000)))
        await until(lambda: held(router) == [0], "the body to be forgotten")
        engine_like.dies = True
        engine_like.go_on.set()
        answer = await asked
    assert (answer.status, answer.error["code"]) == (502, "engine_failed")
    assert len(one.requests) + len(two.requests) == 1


async def test_a_request_that_waits_keeps_its_body():
    engine_like = Engine()
    async with (
        scripted_engine(engine_like) as engine,
        running_router(engine, spec=pool(max_concurrent=1, **ROOM), max_held_bytes=LIMIT) as router,
    ):
        first, second = chat("a" * 800_000), chat("b" * 900_000)
        running = asyncio.create_task(router.ask(first))
        await until(lambda: engine.requests)
        waiting = asyncio.create_task(router.ask(second))
        await until(lambda: held(router) == [0, len(second)])
        engine_like.go_on.set()
        assert [(await one).status for one in (running, waiting)] == [200, 200]
    assert [request.body for request in engine.requests] == [first, second]


async def test_an_edited_copy_of_a_body_counts_too():
    engine_like = Engine()
    async with (
        scripted_engine(engine_like) as engine,
        running_router(engine, spec=pool(**ROOM), max_held_bytes=LIMIT) as router,
        router.client() as client,
    ):
        body = chat("x" * 300_000, model="tiny-alias")
        await client.send(post(body))
        await until(lambda: engine.requests)
        assert held(router) == [2 * len(body) - len("-alias")]
        client.leave()
