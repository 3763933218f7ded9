import asyncio
import errno
import json
import os
import socket

import pytest
from router_under_test import Answer, RunningRouter, chat, pool, replicas, running_router, until
from scripted_engine import (
    BUSY,
    DONE,
    DRAINING,
    HELLO,
    LAST_CHUNK,
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

from workslice_router.routing_table import ReplicaSpec

GOOD_STREAM = stream(token("ok"), DONE)


def error_event(code: int, message: str = "x") -> bytes:
    return b"data: " + json.dumps({"error": {"message": message, "type": "t", "code": code}}).encode() + b"\n\n"


RETRIED = {
    "reset before any byte": dies_after(b"", reset=True),
    "closed before any byte": dies_after(b""),
    "closed inside the head": dies_after(b"HTTP/1.1 200 OK\r\ncontent-"),
    "closed after the head": dies_after(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"),
    "not HTTP": answers(b"SSH-2.0-OpenSSH\r\n"),
    "engine's queue is full": answers(response(BUSY, 503)),
    "engine drains": answers(response(DRAINING, 500)),
}
RETRIED_STREAMS = {
    **RETRIED,
    "stream closed before its first event": dies_after(STREAM_HEAD),
    "stream ended without an event": answers(STREAM_HEAD + LAST_CHUNK),
    "stream begins with the drain error": answers(stream(b"data: " + DRAINING + b"\n\n", DONE)),
    "stream begins with the busy error": answers(stream(error_event(503), DONE)),
}


async def ask_until_tried(router: RunningRouter, body: bytes, behaviours: int) -> list[Answer]:
    """Replicas take turns, so that one of these requests meets the bad one first."""
    return [await router.ask(body) for _ in range(behaviours)]


@pytest.mark.parametrize("bad", RETRIED.values(), ids=RETRIED.keys())
async def test_another_replica_answers_when_the_first_fails_before_the_first_byte(bad: Behaviour):
    async with scripted_engine(bad) as one, scripted_engine() as two, running_router(one, two) as router:
        got = await ask_until_tried(router, chat(), 2)
    assert [(answer.status, answer.body) for answer in got] == [(200, HELLO)] * 2
    assert all(answer.headers["x-workslice-replica"] == "engine-1" for answer in got)
    assert len(one.requests) == 1


@pytest.mark.parametrize("bad", RETRIED_STREAMS.values(), ids=RETRIED_STREAMS.keys())
async def test_another_replica_streams_when_the_first_fails_before_the_first_event(bad: Behaviour):
    async with (
        scripted_engine(bad) as one,
        scripted_engine(answers(GOOD_STREAM)) as two,
        running_router(one, two) as router,
    ):
        got = await ask_until_tried(router, chat(stream=True), 2)
    assert [(answer.status, answer.body, answer.complete) for answer in got] == [(200, token("ok") + DONE, True)] * 2
    assert len(one.requests) == 1


async def test_another_replica_answers_when_nobody_listens_at_the_first():
    async with scripted_engine() as dead, scripted_engine() as alive, running_router(dead, alive) as router:
        dead.stop()
        got = await ask_until_tried(router, chat(), 6)
    assert [answer.status for answer in got] == [200] * 6


async def test_an_engine_whose_core_died_is_asked_once_and_nothing_else_is_sent_there():
    died = answers(response(NOT_RETRIED["engine fault"][1], 500))
    async with scripted_engine(died) as one, scripted_engine() as two, running_router(one, two) as router:
        got = await ask_until_tried(router, chat(), 6)
    assert sorted(answer.status for answer in got) == [200] * 5 + [500]
    assert (len(one.requests), len(two.requests)) == (1, 5)


async def test_the_same_body_and_the_same_splice_go_to_the_second_replica():
    async with (
        scripted_engine(dies_after(b"")) as one,
        scripted_engine() as two,
        running_router(one, two) as router,
    ):
        body = b'{"model":"tiny-alias","messages":[],"max_tokens":8}'
        await ask_until_tried(router, body, 2)
    sent = [request.body for request in one.requests + two.requests]
    assert sent == [body.replace(b"tiny-alias", b"tiny")] * 3


NOT_RETRIED = {
    "bad request": (400, b'{"error":{"message":"no","type":"BadRequestError","param":null,"code":400}}'),
    "unprocessable": (422, b'{"error":{"message":"no","type":"UnprocessableEntityError"}}'),
    "engine rate limit": (429, b'{"error":{"message":"slow","type":"t","code":429}}'),
    "engine fault": (500, b'{"error":{"message":"EngineCore encountered an issue","type":"t","code":500}}'),
}


@pytest.mark.parametrize(("status", "body"), NOT_RETRIED.values(), ids=NOT_RETRIED.keys())
async def test_an_answer_that_may_be_the_requests_fault_passes_through_and_is_not_repeated(status: int, body: bytes):
    bad = answers(response(body, status))
    async with scripted_engine(bad) as one, scripted_engine(bad) as two, running_router(one, two) as router:
        answer = await router.ask()
    assert (answer.status, answer.body, answer.complete) == (status, body, True)
    assert len(one.requests) + len(two.requests) == 1
    assert answer.headers["x-workslice-pool"] == "default/short"


async def test_at_most_two_further_replicas_are_tried():
    bad = answers(response(BUSY, 503))
    async with (
        scripted_engine(bad) as a,
        scripted_engine(bad) as b,
        scripted_engine(bad) as c,
        scripted_engine(bad) as d,
        running_router(a, b, c, d) as router,
    ):
        answer = await router.ask()
    assert sum(len(engine.requests) for engine in (a, b, c, d)) == 3
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (503, BUSY, "1")


async def test_the_engines_own_busy_answer_passes_when_there_is_no_other_replica():
    async with scripted_engine(answers(response(BUSY, 503))) as engine, running_router(engine) as router:
        answer = await router.ask()
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (503, BUSY, "1")


@pytest.mark.parametrize(
    ("bad", "status", "reason"),
    [
        (dies_after(b""), 502, "engine_failed"),
        (answers(response(DRAINING, 500)), 503, "engine_unreachable"),
    ],
)
async def test_a_failure_without_another_replica_is_an_error_that_says_so(bad: Behaviour, status: int, reason: str):
    async with scripted_engine(bad) as engine, running_router(engine) as router:
        answer = await router.ask()
    assert (answer.status, answer.headers["x-workslice-reason"]) == (status, reason)
    assert (answer.error["code"], answer.error["type"]) == (reason, "server_error")
    assert answer.headers["retry-after"]


async def test_an_unreachable_single_replica_gives_503_at_once():
    async with scripted_engine() as engine, running_router(engine) as router:
        engine.stop()
        answer = await router.ask()
    assert (answer.status, answer.headers["x-workslice-reason"]) == (503, "engine_unreachable")


@pytest.mark.interpreted
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EADDRNOTAVAIL])
async def test_a_router_without_files_or_ports_does_not_blame_the_replicas(
    number: int, monkeypatch: pytest.MonkeyPatch
):
    async def fails(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    async with scripted_engine() as one, scripted_engine() as two, running_router(one, two) as router:
        with monkeypatch.context() as patched:
            patched.setattr("workslice_router.attempt.open_connection", fails)
            answer = await router.ask()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert not any(replica.health.ejected for replica in router.table.pools["default/short"].replicas)
        assert (await router.ask()).status == 200


async def test_a_replica_that_does_not_take_connections_is_given_up_after_the_connect_timeout():
    with socket.socket() as full, socket.socket() as filler:
        full.bind(("127.0.0.1", 0))
        full.listen(0)  # the kernel drops further handshakes once the backlog is full
        filler.connect(full.getsockname())
        async with scripted_engine() as alive, running_router(alive, connect_timeout=0.3) as router:
            stuck = replicas(alive)[0]
            router.table.put_replicas(
                "default/short",
                (type(stuck)("stuck", "127.0.0.1", full.getsockname()[1]), type(stuck)("ok", "127.0.0.1", alive.port)),
            )
            router.table.commit()
            got = await ask_until_tried(router, chat(), 2)
    assert [answer.headers["x-workslice-replica"] for answer in got] == ["ok", "ok"]


async def test_a_kept_connection_that_the_engine_has_just_closed_is_replaced_and_nothing_counts_as_failed():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        if len(wire.requests) == 2:  # as if the keep-alive timeout struck at this very moment
            wire.abort()
        else:
            wire.write(response(HELLO))

    async with scripted_engine(behaviour) as engine, running_router(engine) as router:
        got = [await router.ask() for _ in range(3)]
        assert not any(replica.health.ejections for replica in router.table.pools["default/short"].replicas)
    assert [answer.status for answer in got] == [200, 200, 200]


@pytest.mark.interpreted
async def test_a_kept_connection_that_breaks_while_the_engine_works_is_a_failure_of_the_replica(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("workslice_router.attempt._STALE_SECONDS", 0.05)
    poison = chat("poison")

    async def dies_of_poison(request: EngineRequest, wire: Wire) -> None:
        if request.body == poison:
            await asyncio.sleep(0.1)
            wire.abort()
        else:
            wire.write(response(HELLO))

    async with scripted_engine(dies_of_poison) as engine, running_router(engine) as router:
        assert (await router.ask()).status == 200
        assert (await router.ask(poison)).status == 502
        assert router.table.pools["default/short"].replicas[0].health.ejected
    assert [request.body == poison for request in engine.requests] == [False, True]


async def test_a_stream_that_begins_with_an_engine_error_becomes_an_ordinary_error():
    events = stream(error_event(500, "EngineCore encountered an issue"), DONE)
    async with scripted_engine(answers(events)) as engine, running_router(engine) as router:
        answer = await router.ask(chat(stream=True))
    assert (answer.status, answer.headers["content-type"]) == (500, "application/json")
    assert answer.error["message"] == "EngineCore encountered an issue"
    assert b"[DONE]" not in answer.body


async def test_a_silent_engine_is_given_up_after_the_idle_timeout_and_not_retried():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD)

    async with scripted_engine(behaviour) as engine, running_router(engine, idle_timeout=0.2) as router:
        answer = await router.ask(chat(stream=True))
        await until(lambda: engine.requests[0].gone.is_set(), "the engine's connection to be cut")
    assert (answer.status, answer.headers["x-workslice-reason"]) == (504, "engine_timeout")
    assert len(engine.requests) == 1


async def test_a_retry_waits_in_the_queue_when_the_other_replicas_are_full():
    release = asyncio.Event()

    async def busy(request: EngineRequest, wire: Wire) -> None:
        await release.wait()
        wire.write(response(HELLO))

    spec = pool(max_concurrent=1)
    async with (
        scripted_engine(busy) as one,
        scripted_engine(busy) as two,
        running_router(one, two, spec=spec) as router,
    ):
        first = asyncio.create_task(router.ask())
        await until(lambda: one.requests or two.requests)
        other = two if one.requests else one
        other.behaviour = dies_after(b"")
        second = asyncio.create_task(router.ask())
        await until(lambda: router.admission.waiting == 1, "the retried request to wait")
        release.set()
        assert [(await first).status, (await second).status] == [200, 200]


async def test_a_long_error_body_is_relayed_whole():
    body = b'{"error":{"message":"' + b"x" * 200_000 + b'"}}'
    async with scripted_engine(answers(response(body, 400))) as engine, running_router(engine) as router:
        answer = await router.ask()
    assert (answer.status, answer.body, answer.complete) == (400, body, True)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (404, b'{"detail":"Not Found"}', "The engine answered 404: Not Found"),
        (401, b'{"error":"Unauthorized"}', "The engine answered 401: Unauthorized"),
        (400, b"plain text\n", "The engine answered 400: plain text"),
        (500, b"", "The engine answered 500: nothing more"),
        (422, b'{"detail":[{"loc":["body"]}]}', 'The engine answered 422: [{"loc":["body"]}]'),
        (400, b"[1]", "The engine answered 400: [1]"),
    ],
)
async def test_an_error_of_another_shape_is_put_into_openais(status: int, body: bytes, message: str):
    data = response(body, status, b"content-type: text/plain\r\n")
    async with scripted_engine(answers(data)) as engine, running_router(engine) as router:
        answer = await router.ask()
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    assert (answer.error["message"], answer.error["code"]) == (message, status)


async def test_an_error_without_framing_of_its_own_gets_a_length():
    data = b"HTTP/1.1 400 X\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b'{"error"') + chunk(b":{}}") + LAST_CHUNK
    async with scripted_engine(answers(data)) as engine, running_router(engine) as router:
        answer = await router.ask()
    assert (answer.status, answer.body, answer.headers["content-length"]) == (400, b'{"error":{}}', "12")


TOO_LONG = (
    b'{"error":{"message":"maximum context length is 2048","type":"BadRequestError","param":"input_tokens","code":400}}'
)


@pytest.mark.parametrize(
    "param", [b"input_tokens", b"input_text"]
)  # counted; so many characters that it need not count
@pytest.mark.parametrize("fields", [{}, {"stream": True}])
async def test_a_prompt_that_is_longer_than_estimated_is_answered_by_the_larger_pool(
    fields: dict[str, bool], param: bytes
):
    good = answers(stream(token("ok"), DONE)) if fields else answers(response(HELLO))
    bad = answers(response(TOO_LONG.replace(b"input_tokens", param), 400))
    async with scripted_engine(bad) as small, scripted_engine(good) as large, running_router(small) as router:
        router.table.put_pool(pool("long", class_tokens=8192, context_tokens=8192))
        router.table.put_replicas("default/long", [ReplicaSpec("large", "127.0.0.1", large.port)])
        router.table.commit()
        answer = await router.ask(chat("x" * 4000, **fields))
    assert answer.status == 200
    assert answer.headers["x-workslice-pool"] == "default/long"


@pytest.mark.parametrize(("room", "status"), [({}, 400), ({"desired_replicas": 1, "queue_depth": 0}, 429)])
async def test_a_prompt_whose_larger_pool_is_empty_gets_the_engines_own_answer(room: dict[str, int], status: int):
    async with scripted_engine(answers(response(TOO_LONG, 400))) as small, running_router(small) as router:
        router.table.put_pool(pool("long", class_tokens=8192, context_tokens=8192, **room))
        router.table.commit()
        answer = await router.ask(chat("x" * 4000))
        assert router.at_rest()
    assert answer.status == status
    assert (answer.body == TOO_LONG) is (status == 400)


async def test_a_prompt_that_is_too_long_for_every_pool_gets_the_engines_own_answer():
    async with scripted_engine(answers(response(TOO_LONG, 400))) as only, running_router(only) as router:
        answer = await router.ask(chat("x" * 4000))
    assert (answer.status, answer.body) == (400, TOO_LONG)
