"""Engines that die again and again, at any moment of many requests, leave nothing behind in the router."""

import asyncio
import gc
import os
from collections import Counter
from random import Random

import pytest
from router_under_test import RunningRouter, chat, pool, post, replicas, running_router, until
from scripted_engine import (
    DONE,
    HELLO,
    LAST_CHUNK,
    STREAM_HEAD,
    EngineRequest,
    ScriptedEngine,
    Wire,
    chunk,
    response,
    scripted_engine,
    token,
)

from workslice_router.admission import Lease
from workslice_router.attempt import Attempt
from workslice_router.client_connection import ClientConnection
from workslice_router.engine_connection import EngineConnection
from workslice_router.exchange import Exchange
from workslice_router.waiting_room import Ticket

pytestmark = pytest.mark.slow

CYCLES = 30
REQUESTS = 14
PER_REQUEST = (Exchange, Attempt, Lease, Ticket, EngineConnection, ClientConnection)


async def slow_engine(request: EngineRequest, wire: Wire) -> None:
    """Every stage of an answer lasts long enough to be killed in."""
    await asyncio.sleep(0.01)
    if b'"stream": true' not in request.body:
        wire.write(response(HELLO)[:60])
        await asyncio.sleep(0.01)
        wire.write(response(HELLO)[60:])
        return
    wire.write(STREAM_HEAD)
    for _ in range(4):
        await asyncio.sleep(0.005)
        event = chunk(token("a"))
        wire.write(event[:20])
        await asyncio.sleep(0.002)
        wire.write(event[20:])
    wire.write(chunk(DONE))
    await asyncio.sleep(0.005)
    wire.write(LAST_CHUNK)


async def one_request(router: RunningRouter, chance: Random) -> str:
    body = chat(stream=chance.random() < 0.6)
    async with router.client() as client:
        await client.send(post(body))
        if chance.random() < 0.2:
            await asyncio.sleep(chance.random() * 0.05)
            client.leave()
            return "left"
        answer = await client.answer()
        if answer.status == 200 and answer.complete:
            assert answer.body == HELLO or answer.body.endswith(DONE), "a complete answer that is not whole"
        return f"{answer.status} {'complete' if answer.complete else 'cut'}"


def left_over() -> Counter[str]:
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, PER_REQUEST))


async def kill_cycle(router: RunningRouter, engines: list[ScriptedEngine], chance: Random) -> list[str]:
    # What probes of the kubelet would say: both are well again, whatever happened before.
    for ready in (False, True):
        router.table.put_replicas(
            "default/short", [type(one)(one.uid, one.host, one.port, ready=ready) for one in replicas(*engines)]
        )
        router.table.commit()
    asking = [asyncio.create_task(one_request(router, chance)) for _ in range(REQUESTS)]
    await asyncio.sleep(chance.random() * 0.06)
    victims = [engine for engine in engines if chance.random() < 0.6]
    for engine in victims:
        engine.stop()
    endings = await asyncio.gather(*asking)
    for engine in victims:
        await engine.start()
    return endings


async def test_thirty_kills_leave_no_account_task_connection_or_object():
    chance = Random(7)
    spec = pool(max_concurrent=4, queue_wait=0.15)
    async with scripted_engine(slow_engine) as one, scripted_engine(slow_engine) as two:
        files, tasks, objects = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), left_over()
        async with running_router(one, two, spec=spec) as router:
            endings: Counter[str] = Counter()
            for _ in range(CYCLES):
                endings.update(await kill_cycle(router, [one, two], chance))
            await until(router.at_rest, "the accounts to be zero")
            assert sum(endings.values()) == CYCLES * REQUESTS
            assert endings["200 complete"] > REQUESTS
            assert endings["200 cut"] > 0
            assert endings["left"] > 0
            (short,) = router.table.pools.values()
            assert (short.running, len(short.queue), short.queue.size, short.queue.tokens) == (0, 0, 0, 0)
            router.data_path.idle.close_all()
        await until(lambda: len(asyncio.all_tasks()) == tasks, "the tasks to end")
        await until(lambda: len(os.listdir("/proc/self/fd")) == files, "the connections to close")
        del router, short
        assert left_over() == objects
