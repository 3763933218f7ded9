"""Two routers before one engine, which talk to nobody: together they keep to its places, and neither is left out."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from router_process import MODEL, Router, router
from simulator_process import Simulator, simulator

pytestmark = pytest.mark.slow

PLACES = 16
PATIENCE = 30.0


@pytest.fixture(scope="module")
def engine() -> Iterator[Simulator]:
    with simulator("--sim-speed", "1", "--max-num-seqs", "256") as one:
        yield one


@pytest.fixture(scope="module")
def routers(engine: Simulator) -> Iterator[list[Router]]:
    with router([engine], PLACES, None) as one, router([engine], PLACES, None) as two:
        yield [one, two]


@contextlib.asynccontextmanager
async def crowd(one: Router, count: int) -> Any:
    """Clients that always want more."""

    async def go_on(client: httpx.AsyncClient) -> None:
        body = {"model": MODEL, "prompt": "Go on.", "max_tokens": 200, "ignore_eos": True}
        while True:
            (await client.post("/v1/completions", json=body)).raise_for_status()

    async with one.client() as client:
        tasks = [asyncio.create_task(go_on(client)) for _ in range(count)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def shared(routers: list[Router]) -> tuple[int, int]:
    """What each runs, once both have enough and together no more than they should; the last seen when that does not come true."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    calm = 0
    while True:
        counts = [(await asyncio.to_thread(one.pool))["running"] for one in routers]
        calm = calm + 1 if sum(counts) <= PLACES + 2 and min(counts) >= PLACES // 4 else 0
        if calm == 5 or loop.time() > deadline:
            return counts[0], counts[1]
        await asyncio.sleep(0.2)


async def test_two_routers_share_the_places_of_an_engine(routers: list[Router]) -> None:
    async with crowd(routers[0], 24), crowd(routers[1], 24):
        one, other = await shared(routers)
        assert one + other <= PLACES + 2
        assert min(one, other) >= PLACES // 4


async def test_a_router_that_comes_later_gets_its_part(routers: list[Router]) -> None:
    async with crowd(routers[0], 24):
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while (running := (await asyncio.to_thread(routers[0].pool))["running"]) < PLACES:
            assert asyncio.get_running_loop().time() < deadline, f"alone it runs only {running}"
            await asyncio.sleep(0.2)
        async with crowd(routers[1], 24):
            one, other = await shared(routers)
            assert one + other <= PLACES + 2
            assert min(one, other) >= PLACES // 4


async def test_a_router_knows_what_the_engine_says(routers: list[Router]) -> None:
    (replica,) = routers[0].pool()["replicas"]
    assert replica["kvTokens"] > 1000
    assert replica["engine"]["kvCacheUsage"] is not None
