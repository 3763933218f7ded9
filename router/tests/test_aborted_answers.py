"""An engine that is stopped or paused gives requests up, and calls that an answer: status 200, finish_reason abort, `[DONE]`."""

import asyncio
import json

import pytest
from router_under_test import chat, running_router
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
    response,
    scripted_engine,
    stream,
    token,
)

ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n'
ABORT = b'data: {"choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"abort"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":0,"total_tokens":5}}\n\n'
ABORTED = HELLO.replace(b'"content":"hello"}', b'"content":""},"finish_reason":"abort"')


async def role_then_abort_later(request: EngineRequest, wire: Wire) -> None:
    wire.write(STREAM_HEAD + chunk(ROLE))
    await asyncio.sleep(0.02)
    wire.write(chunk(ABORT) + chunk(DONE) + LAST_CHUNK)


GIVEN_UP: dict[str, tuple[Behaviour, bool]] = {
    "chat": (answers(stream(ROLE, ABORT, DONE)), True),
    "with usage": (answers(stream(ROLE, ABORT, USAGE, DONE)), True),
    "in two reads": (role_then_abort_later, True),
    "completion": (answers(stream(b'data: {"choices":[{"text":"","finish_reason":"abort"}]}\n\n', DONE)), True),
    "a token in the same read": (answers(stream(ROLE, token("a"), ABORT, DONE)), True),
    "no stream": (answers(response(ABORTED)), False),
}


@pytest.mark.parametrize(("bad", "streams"), GIVEN_UP.values(), ids=GIVEN_UP.keys())
async def test_another_replica_answers_what_an_engine_gave_up_before_the_first_token(bad: Behaviour, streams: bool):
    good = stream(ROLE, token("ok"), DONE) if streams else response(HELLO)
    async with scripted_engine(bad) as one, scripted_engine(answers(good)) as two, running_router(one, two) as router:
        got = [await router.ask(chat(stream=streams)) for _ in range(3)]
        rests = [replica.health.rest_until > 0 for replica in router.table.pools["default/short"].replicas]
    whole = ROLE + token("ok") + DONE if streams else HELLO
    assert [(answer.status, answer.body, answer.complete) for answer in got] == [(200, whole, True)] * 3
    assert len(one.requests) == 1
    assert rests == [True, False]


@pytest.mark.parametrize("streams", [True, False])
async def test_without_another_replica_it_is_an_error(streams: bool):
    bad = answers(stream(ROLE, ABORT, DONE) if streams else response(ABORTED))
    async with scripted_engine(bad) as engine, running_router(engine) as router:
        answer = await router.ask(chat(stream=streams))
    assert (answer.status, answer.headers["x-workslice-reason"]) == (502, "engine_failed")
    assert "gave the request up" in answer.error["message"]


@pytest.mark.parametrize("together", [True, False])
async def test_an_answer_that_is_given_up_in_the_middle_is_not_ended_like_a_complete_one(together: bool):
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(ROLE) + chunk(token("a")))
        await asyncio.sleep(0.02)
        wire.write(chunk(ABORT))
        if not together:
            await asyncio.sleep(0.02)
        wire.write(chunk(USAGE) + chunk(DONE) + LAST_CHUNK)

    async with scripted_engine(behaviour) as engine, running_router(engine) as router:
        answer = await router.ask(chat(stream=True))
    assert (answer.status, answer.complete) == (200, False)
    assert answer.body.startswith(ROLE + token("a") + ABORT + USAGE)
    last = json.loads(answer.body.split(b"\n\n")[-2].removeprefix(b"data: "))
    assert last["error"]["code"] == "stream_interrupted"
    assert DONE not in answer.body


async def test_text_that_speaks_of_an_abort_is_only_text():
    said = token('"finish_reason":"abort"')
    async with scripted_engine(answers(stream(ROLE, said, DONE))) as engine, running_router(engine) as router:
        answer = await router.ask(chat(stream=True))
    assert (answer.complete, answer.body) == (True, ROLE + said + DONE)


async def test_the_role_goes_out_together_with_the_first_token():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(ROLE))
        await asyncio.sleep(0.02)
        wire.write(chunk(token("a")) + chunk(DONE) + LAST_CHUNK)

    async with scripted_engine(behaviour) as engine, running_router(engine) as router:
        answer = await router.ask(chat(stream=True))
    assert answer.chunks[0].startswith(ROLE + token("a"))
    assert answer.body == ROLE + token("a") + DONE
