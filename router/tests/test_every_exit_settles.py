"""However a request ends, the accounts are zero afterwards: a slot that is not given back lowers a pool's capacity for ever."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from router_under_test import RunningRouter, WireClient, chat, pool, post, running_router, until
from scripted_engine import (
    BUSY,
    DONE,
    DRAINING,
    HELLO,
    STREAM_HEAD,
    Behaviour,
    EngineRequest,
    Wire,
    answers,
    chunk,
    dies_after,
    response,
    scripted_engine,
    stream,
    token,
)

from workslice_router import hung_replica
from workslice_router.admission import Admission
from workslice_router.openai_errors import Reason, refusal

ERROR = b'data: {"error": {"message": "died", "code": 500}}\n\n'


async def never(request: EngineRequest, wire: Wire) -> None: ...


async def half_a_stream(request: EngineRequest, wire: Wire) -> None:
    wire.write(STREAM_HEAD + chunk(token("a")))


Ending = Callable[[RunningRouter, WireClient], Awaitable[None]]


async def reads_to_the_end(router: RunningRouter, client: WireClient) -> None:
    await client.answer()


async def leaves_when_running(router: RunningRouter, client: WireClient) -> None:
    await until(lambda: router.admission.in_flight)
    client.leave()


async def leaves_when_streaming(router: RunningRouter, client: WireClient) -> None:
    await client.head()
    client.leave()


async def router_stops(router: RunningRouter, client: WireClient) -> None:
    await until(lambda: router.admission.in_flight)
    await asyncio.sleep(0.02)
    for exchange in tuple(router.data_path.exchanges):
        exchange.interrupt(refusal(Reason.SHUTTING_DOWN))
    await client.answer()


async def pool_vanishes_then_client_leaves(router: RunningRouter, client: WireClient) -> None:
    await until(lambda: router.admission.in_flight)
    router.table.remove_pool("default/short")
    router.table.commit()
    client.leave()


EXITS: dict[str, tuple[Behaviour, Ending]] = {
    "answer": (answers(response(HELLO)), reads_to_the_end),
    "empty answer": (answers(response(b"")), reads_to_the_end),
    "stream": (answers(stream(token("a"), DONE)), reads_to_the_end),
    "bad request": (answers(response(b"{}", 400)), reads_to_the_end),
    "engine fault": (answers(response(b"{}", 500)), reads_to_the_end),
    "busy everywhere": (answers(response(BUSY, 503)), reads_to_the_end),
    "draining everywhere": (answers(response(DRAINING, 500)), reads_to_the_end),
    "dead everywhere": (dies_after(b""), reads_to_the_end),
    "reset everywhere": (dies_after(b"", reset=True), reads_to_the_end),
    "nonsense everywhere": (answers(b"\x00\x01\x02"), reads_to_the_end),
    "head without end": (answers(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000), reads_to_the_end),
    "stream cut before": (dies_after(STREAM_HEAD), reads_to_the_end),
    "stream cut after": (dies_after(STREAM_HEAD + chunk(token("a"))), reads_to_the_end),
    "stream with error first": (answers(stream(ERROR, DONE)), reads_to_the_end),
    "stream with error later": (answers(stream(token("a"), ERROR, DONE)), reads_to_the_end),
    "answer cut": (dies_after(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nx"), reads_to_the_end),
    "silence before": (never, reads_to_the_end),
    "silence after": (half_a_stream, reads_to_the_end),
    "client leaves before": (never, leaves_when_running),
    "client leaves after": (half_a_stream, leaves_when_streaming),
    "router stops before": (never, router_stops),
    "router stops after": (half_a_stream, router_stops),
    "pool vanishes": (never, pool_vanishes_then_client_leaves),
}


@pytest.mark.parametrize(("behaviour", "ending"), EXITS.values(), ids=EXITS.keys())
async def test_accounts_are_zero_after(behaviour: Behaviour, ending: Ending):
    async with (
        scripted_engine(behaviour) as one,
        scripted_engine(behaviour) as two,
        running_router(one, two, idle_timeout=0.3) as router,
        router.client() as client,
    ):
        pool_object = router.table.pools["default/short"]
        await client.send(post(chat(stream=True)))
        await until(lambda: router.data_path.connections)
        await ending(router, client)
        await until(router.at_rest, "the accounts to be zero")
        assert pool_object.running == 0
        assert all(replica.in_flight == replica.outstanding_tokens == 0 for replica in pool_object.replicas)


async def test_accounts_are_zero_after_nobody_listens():
    async with scripted_engine() as engine, running_router(engine) as router:
        engine.stop()
        assert (await router.ask()).status == 503
        assert router.at_rest()


@pytest.mark.parametrize("leaves", [True, False])
async def test_accounts_are_zero_after_waiting(leaves: bool):
    spec = pool(max_concurrent=1, queue_wait=0.2)
    async with scripted_engine(never) as engine, running_router(engine, spec=spec, idle_timeout=0.5) as router:
        async with router.client() as running, router.client() as waiting:
            await running.send(post(chat()))
            await until(lambda: engine.requests)
            await waiting.send(post(chat()))
            await until(lambda: router.admission.waiting == 1)
            if leaves:
                waiting.leave()
            else:
                assert (await waiting.answer()).status == 429
            running.leave()
        await until(router.at_rest)


@pytest.mark.interpreted
async def test_accounts_are_zero_after_a_fault_of_the_router_itself(monkeypatch: pytest.MonkeyPatch):
    def fault(*arguments: object) -> bytes:
        raise RuntimeError("a fault")

    async with scripted_engine() as engine, running_router(engine) as router:
        monkeypatch.setattr("workslice_router.exchange.upstream_body", fault)
        answer = await router.ask()
        assert (answer.status, answer.error["code"]) == (500, "internal_error")
        assert router.at_rest()


FAULTS = {
    "in the plan of a retry": (dies_after(b""), "workslice_router.admission.Admission.submit", False),
    "in the error of a failure": (
        answers(response(b"{}", 500)),
        "workslice_router.exchange.client_response_lines",
        False,
    ),
    "after the answer": (answers(response(HELLO)), "workslice_router.exchange.find_usage", True),
    "after the stream": (answers(stream(token("a"), DONE)), "workslice_router.exchange.find_usage", True),
    "in the event that says why": (
        dies_after(STREAM_HEAD + chunk(token("a"))),
        "workslice_router.exchange.sse_error_event",
        True,
    ),
}


@pytest.mark.interpreted
@pytest.mark.parametrize(("behaviour", "what", "begun"), FAULTS.values(), ids=FAULTS.keys())
async def test_a_fault_of_the_router_in_a_callback_ends_the_request_and_nothing_else(
    behaviour: Behaviour, what: str, begun: bool, monkeypatch: pytest.MonkeyPatch
):
    calls = 0

    def fault(*arguments: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if what.endswith("submit") and calls == 1:  # the first attempt is placed, the second is not
            return original(*arguments, **named)
        raise RuntimeError("a fault")

    async with (
        scripted_engine(behaviour) as one,
        scripted_engine(behaviour) as two,
        running_router(one, two) as router,
        router.client() as client,
    ):
        original = Admission.submit
        with monkeypatch.context() as patched:
            patched.setattr(what, fault)
            await client.send(post(chat(stream=True)))
            answer = await client.answer()
            assert calls
            if begun:
                assert await client.closed()
                assert not answer.complete or "content-length" in answer.headers
            else:
                assert (answer.status, answer.error["code"]) == (500, "internal_error")
        await until(router.at_rest)
        one.behaviour = two.behaviour = answers(response(HELLO))
        assert (await router.ask()).status == 200


async def test_accounts_are_zero_after_many_mixed_requests():
    kinds = [
        answers(response(HELLO)),
        answers(stream(token("a"), DONE)),
        answers(stream(token("a"), ERROR, DONE)),
        answers(response(b"{}", 400)),
    ]
    turn = 0

    async def mixed(request: EngineRequest, wire: Wire) -> None:
        nonlocal turn
        turn += 1
        await asyncio.sleep(turn % 3 * 0.005)
        # Now and then only: a replica that resets connections gets a rest, and then everybody waits.
        await (dies_after(b"") if turn % 40 == 0 else kinds[turn % len(kinds)])(request, wire)

    async def one(router: RunningRouter, number: int) -> None:
        async with router.client() as client:
            await client.send(post(chat(stream=number % 2 == 0)))
            if number % 5 == 0:
                await asyncio.sleep(number % 4 * 0.003)
                client.leave()
            else:
                await client.answer()

    async with (
        scripted_engine(mixed) as a,
        scripted_engine(mixed) as b,
        running_router(a, b, spec=pool(max_concurrent=3)) as router,
    ):
        await asyncio.gather(*(one(router, number) for number in range(90)))
        await until(router.at_rest)


async def test_a_fault_while_one_request_is_looked_at_keeps_no_other_from_its_deadline(monkeypatch: pytest.MonkeyPatch):
    def suspect(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(hung_replica, "SILENT_SECONDS", 0.1)
    async with scripted_engine(never) as engine, running_router(engine, spec=pool()) as router:
        monkeypatch.setattr(router.data_path.hung, "suspect", suspect)
        answers_ = await asyncio.gather(*(router.ask(chat()) for _ in range(3)))
    assert [answer.status for answer in answers_] == [500, 500, 500]
