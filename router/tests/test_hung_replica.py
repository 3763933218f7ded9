"""A replica that says nothing is asked whether it lives: one that hangs gets no requests until it answers, one that computes does."""

import asyncio
import errno

import pytest
from router_under_test import RunningRouter, running_router, until
from scripted_engine import HELLO, EngineRequest, ScriptedEngine, Wire, response, scripted_engine

from workslice_router import hung_replica
from workslice_router.ejection import HEALTHY, HELD_BACK_SECONDS, available, held_back
from workslice_router.hung_replica import Answer

WELL = response(b"")
BETWEEN_QUESTIONS = hung_replica.ANSWER_SECONDS + hung_replica.PAUSE_SECONDS


class Engine:
    """An engine that takes requests, answers them when it is let, and says what it is told of its health."""

    def __init__(self, health: bytes) -> None:
        self.health = health
        self.asked = 0
        self.let = asyncio.Event()

    async def __call__(self, request: EngineRequest, wire: Wire) -> None:
        if request.line.startswith("GET /health "):
            self.asked += 1
            wire.write(self.health)
            return
        await self.let.wait()
        wire.write(response(HELLO))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("SILENT", 0.1), ("ANSWER", 0.2), ("PAUSE", 0.05), ("CALM", 0.05)):
        monkeypatch.setattr(hung_replica, f"{name}_SECONDS", seconds)


def ejected(router: RunningRouter) -> list[bool]:
    (one,) = router.table.pools.values()
    return [replica.health.ejected for replica in one.replicas]


def test_it_is_asked_again_before_a_request_may_try_it():
    assert not available(held_back(HEALTHY, now=100.0), 100.0 + BETWEEN_QUESTIONS)
    assert available(held_back(HEALTHY, now=100.0), 100.0 + HELD_BACK_SECONDS)


@pytest.mark.parametrize("health", [b"", response(b"", 503)], ids=["silent", "503"])
async def test_a_replica_that_hangs_gets_no_requests_until_it_answers_and_then_answers_what_it_has(health: bytes):
    hung = Engine(health)
    async with scripted_engine(hung) as one, scripted_engine() as two, running_router(one, two) as router:
        waiting = [asyncio.create_task(router.ask()) for _ in range(2)]  # one on each
        await until(lambda: ejected(router) == [True, False], "the hung one to leave rotation")
        meanwhile = [await router.ask() for _ in range(4)]
        assert {answer.headers["x-workslice-replica"] for answer in meanwhile} == {"engine-1"}
        asked = hung.asked
        await until(lambda: hung.asked > asked + 1, "it to be asked again and again")
        assert ejected(router) == [True, False]

        hung.health = WELL
        await until(lambda: ejected(router) == [False, False], "it to be back")
        hung.let.set()
        answers = [await one for one in waiting]
    assert [(answer.status, answer.body) for answer in answers] == [(200, HELLO)] * 2


@pytest.mark.parametrize("health", [WELL, response(b"", 404)], ids=["200", "an engine without this path"])
async def test_a_replica_that_computes_for_long_stays(health: bytes):
    busy = Engine(health)
    async with scripted_engine(busy) as one, running_router(one) as router:
        waiting = asyncio.create_task(router.ask())
        await until(lambda: busy.asked >= 3, "it to be asked now and then")
        assert ejected(router) == [False]
        busy.let.set()
        assert (await waiting).body == HELLO


async def test_one_late_answer_is_forgiven():
    late = Engine(b"")
    async with scripted_engine(late) as one, running_router(one) as router:
        waiting = asyncio.create_task(router.ask())
        await until(lambda: late.asked == 1, "the first question")
        late.health = WELL
        await until(lambda: late.asked >= 3, "further questions")
        (pool_,) = router.table.pools.values()
        assert pool_.replicas[0].health.ejections == 0
        late.let.set()
        assert (await waiting).status == 200


async def no_file_left(*_: object) -> None:
    raise OSError(errno.EMFILE, "Too many open files")


async def test_a_router_that_cannot_ask_blames_no_replica(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asyncio, "open_connection", no_file_left)
    assert await hung_replica.ask("127.0.0.1", 1) is Answer.NOT_ASKED


async def test_a_router_that_cannot_ask_does_not_call_a_hung_replica_well(monkeypatch: pytest.MonkeyPatch):
    hung = Engine(b"")
    async with scripted_engine(hung) as one, running_router(one) as router:
        waiting = asyncio.create_task(router.ask())
        await until(lambda: ejected(router) == [True], "it to leave rotation")
        tried = 0

        async def count(*_: object) -> None:
            nonlocal tried
            tried += 1
            await no_file_left()

        with monkeypatch.context() as patched:
            patched.setattr(hung_replica.asyncio, "open_connection", count)
            await until(lambda: tried >= 2, "two attempts to ask")
            assert ejected(router) == [True]
        hung.health = WELL
        await until(lambda: ejected(router) == [False], "it to be back")
        hung.let.set()
        assert (await waiting).body == HELLO


async def test_a_port_where_nobody_listens_does_not_answer():
    gone = ScriptedEngine()
    await gone.start()
    gone.stop()
    assert await hung_replica.ask("127.0.0.1", gone.port) is Answer.MISSING


@pytest.mark.parametrize("line", [b"HTTP/1.1 2" + b"0" * 5000, b"200", b"\xff" * 10], ids=["endless", "bare", "noise"])
async def test_noise_is_no_answer(line: bytes):
    async def noisy(request: EngineRequest, wire: Wire) -> None:
        wire.write(line + b"\r\n\r\n")

    async with scripted_engine(noisy) as engine:
        assert await hung_replica.ask("127.0.0.1", engine.port) is Answer.MISSING


@pytest.mark.parametrize("gone", ["replica", "pool"])
async def test_a_hung_replica_that_is_no_longer_there_is_asked_no_more(gone: str):
    hung = Engine(b"")
    async with scripted_engine(hung) as one, running_router(one) as router:
        waiting = asyncio.create_task(router.ask())
        await until(lambda: ejected(router) == [True], "it to leave rotation")
        if gone == "replica":
            router.table.put_replicas("default/short", [])
        else:
            router.table.remove_pool("default/short")
        router.table.commit()
        await until(lambda: not router.data_path._tasks, "the questions to end")
        hung.let.set()
        assert (await waiting).body == HELLO
