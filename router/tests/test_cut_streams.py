import asyncio
import json

import pytest
from router_under_test import chat, post, running_router, until
from scripted_engine import (
    DONE,
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

ERROR = b'data: {"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}\n\n'


def events_of(body: bytes) -> list[bytes]:
    return [event for event in body.split(b"\n\n") if event]


CUT = {
    "closed": dies_after(STREAM_HEAD + chunk(token("a"))),
    "reset": dies_after(STREAM_HEAD + chunk(token("a")), reset=True),
    "closed inside an event": dies_after(STREAM_HEAD + chunk(token("a")) + chunk(token("b")[:30])),
    "closed inside a chunk": dies_after(STREAM_HEAD + chunk(token("a")) + b"ff\r\ndata: {"),
    "ended without [DONE]": answers(stream(token("a"))),
    "broken chunk": answers(STREAM_HEAD + chunk(token("a")) + b"zz\r\n"),
}


@pytest.mark.parametrize("behaviour", CUT.values(), ids=CUT.keys())
async def test_a_cut_stream_ends_with_one_error_event_and_without_its_end(behaviour: Behaviour):
    async with scripted_engine(behaviour) as engine, scripted_engine() as other:
        async with running_router(engine) as router:
            answer = await router.ask(chat(stream=True))
        assert not other.requests
    events = events_of(answer.body)
    assert answer.status == 200
    assert not answer.complete
    assert events[0] + b"\n\n" == token("a")
    error = json.loads(events[1].removeprefix(b"data: "))["error"]
    assert (len(events), error["code"], error["type"]) == (2, "stream_interrupted", "server_error")


async def test_an_error_event_of_the_engine_is_the_last_thing_the_client_sees():
    async with scripted_engine(answers(stream(token("a"), ERROR, DONE))) as engine, running_router(engine) as router:
        answer = await router.ask(chat(stream=True))
        assert len(engine.requests) == 1
    assert (answer.body, answer.complete) == (token("a") + ERROR, False)


async def test_a_stream_that_falls_silent_gets_an_error_event_after_the_idle_timeout():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(token("a")))

    async with scripted_engine(behaviour) as engine, running_router(engine, idle_timeout=0.2) as router:
        answer = await router.ask(chat(stream=True))
        await until(lambda: engine.requests[0].gone.is_set(), "the engine's connection to be cut")
    first, last = events_of(answer.body)
    assert first + b"\n\n" == token("a")
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "engine_timeout"
    assert not answer.complete


async def test_a_stream_that_speaks_often_enough_has_no_time_limit():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD)
        for _ in range(8):
            wire.write(chunk(token("a")))
            await asyncio.sleep(0.1)
        wire.write(chunk(DONE) + LAST_CHUNK)

    async with scripted_engine(behaviour) as engine, running_router(engine, idle_timeout=0.4) as router:
        answer = await router.ask(chat(stream=True))
    assert answer.complete
    assert answer.body == token("a") * 8 + DONE


@pytest.mark.parametrize("rest", [b"", chunk(DONE)])
async def test_an_engine_that_dies_after_done_has_given_a_complete_answer(rest: bytes):
    data = STREAM_HEAD + chunk(token("a")) + chunk(DONE)
    async with scripted_engine(dies_after(data)) as engine, running_router(engine) as router:
        answer = await router.ask(chat(stream=True))
    assert (answer.complete, answer.body) == (True, token("a") + DONE)


async def test_a_cut_answer_that_is_no_stream_is_never_completed():
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n"
    async with scripted_engine(dies_after(head + HELLO)) as engine, running_router(engine) as router:
        answer = await router.ask()
    assert (answer.status, answer.complete) == (200, False)


async def test_a_connection_that_carried_a_cut_answer_is_not_used_again():
    async with scripted_engine(CUT["closed"]) as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat(stream=True)) + post(chat()))
        assert not (await client.answer()).complete
        assert await client.closed()
        assert len(engine.requests) == 1


async def test_a_client_of_http_1_0_gets_the_stream_and_the_end_of_the_connection():
    async with scripted_engine(answers(stream(token("a"), DONE))) as engine, running_router(engine) as router:
        answer = await router.ask(chat(stream=True), version="1.0", headers=["connection: keep-alive"])
    assert (answer.status, answer.headers["connection"], answer.body) == (200, "close", token("a") + DONE)
    assert "transfer-encoding" not in answer.headers


async def test_an_engine_that_answers_twice_spoils_its_connection_but_not_the_answer():
    twice = response(HELLO) + response(b'{"id":"of nobody"}')
    async with scripted_engine(answers(twice)) as engine, running_router(engine) as router:
        got = [await router.ask() for _ in range(3)]
    assert [answer.body for answer in got] == [HELLO] * 3
    assert engine.opened == 3
