"""Routers send prompts where their beginning is in the engine's cache, as long as that pays."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest
from router_process import MODEL, Router, router
from simulator_process import Simulator, simulator

pytestmark = pytest.mark.slow

SLO = {"timeToFirstToken": "500ms", "timePerOutputToken": "50ms"}


@pytest.fixture(scope="module")
def engines() -> Iterator[list[Simulator]]:
    with (
        simulator("--sim-speed", "5") as one,
        simulator("--sim-speed", "5") as two,
        simulator("--sim-speed", "5") as three,
    ):
        yield [one, two, three]


@pytest.fixture(scope="module")
def routers(engines: list[Simulator]) -> Iterator[list[Router]]:
    with router(engines, 64, SLO) as one, router(engines, 64, SLO) as two:
        yield [one, two]


def prompt(topic: str, question: str) -> str:
    return f"What follows is all that is known of {topic}. " * 150 + question


async def ask(client: httpx.AsyncClient, text: str, **headers: str) -> str:
    body = {"model": MODEL, "prompt": text, "max_tokens": 4, "ignore_eos": True}
    answer = await client.post("/v1/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-workslice-replica"]


async def test_prompts_that_begin_alike_find_their_beginning_in_the_cache(
    engines: list[Simulator], routers: list[Router]
) -> None:
    before = [[one.value(f"prefix_cache_{kind}_total") for kind in ("hits", "queries")] for one in engines]
    topics = ["whales", "bread", "comets", "moss", "chess", "rust"]
    async with routers[0].client() as client:
        homes = {
            topic: {await ask(client, prompt(topic, f"Question {number}?")) for number in range(5)} for topic in topics
        }
    assert all(len(home) == 1 for home in homes.values())
    assert len(set.union(*homes.values())) == 3
    after = [[one.value(f"prefix_cache_{kind}_total") for kind in ("hits", "queries")] for one in engines]
    hits, queries = (sum(now[n] - then[n] for then, now in zip(before, after, strict=True)) for n in (0, 1))
    assert hits > 0.75 * queries, "all but the first of each five"


async def test_a_crowd_with_one_beginning_spreads_over_all_replicas(routers: list[Router]) -> None:
    async with routers[0].client() as client:
        await ask(client, prompt("clouds", "First?"))
        places = await asyncio.gather(*(ask(client, prompt("clouds", f"And {number}?")) for number in range(60)))
    shares = Counter(places)
    assert len(shares) == 3
    assert max(shares.values()) < 45


async def test_routers_send_a_session_to_the_same_replica_without_talking(routers: list[Router]) -> None:
    async with routers[0].client() as one, routers[1].client() as other:
        for number in range(12):
            name = {"x-workslice-session": f"session {number}"}
            places = {await ask(client, f"Turn {turn}?", **name) for turn in range(2) for client in (one, other)}
            assert len(places) == 1
