"""An answer that is no stream is whole or is not given as such, whatever its engine says of its length."""

import pytest
from router_under_test import running_router
from scripted_engine import (
    HELLO,
    LAST_CHUNK,
    Behaviour,
    EngineRequest,
    Wire,
    answers,
    chunk,
    dies_after,
    response,
    scripted_engine,
)

JSON = b"content-type: application/json\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n" + JSON + b"connection: close\r\n\r\n"
OLD = b"HTTP/1.0 200 OK\r\n" + JSON + b"\r\n"
SHORT = b"HTTP/1.1 200 OK\r\n" + JSON + b"content-length: %d\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\n" + JSON + b"transfer-encoding: chunked\r\n\r\n"
CUT = {
    "until it closes": dies_after(UNTIL_CLOSE + HELLO[:-20]),
    "until it closes, cut after an inner brace": dies_after(UNTIL_CLOSE + b'{"a":{}' * 3),
    "until it closes, nothing": dies_after(UNTIL_CLOSE),
    "HTTP/1.0": dies_after(OLD + HELLO[:-20]),
    "longer than its length": answers(SHORT % (len(HELLO) - 7) + HELLO),
    "a length of nothing": answers(SHORT % 0 + HELLO),
    "chunks of nothing": answers(CHUNKED + LAST_CHUNK),
}
WHOLE = {
    "until it closes": dies_after(UNTIL_CLOSE + HELLO),
    "HTTP/1.0": dies_after(OLD + HELLO + b"\n"),
    "space behind it": answers(response(HELLO + b" \r\n")),
    "space in a chunk of its own": answers(CHUNKED + chunk(HELLO) + chunk(b"\n") + LAST_CHUNK),
}


@pytest.mark.parametrize("behaviour", CUT.values(), ids=CUT.keys())
async def test_an_answer_that_ends_in_the_middle_is_given_by_another_engine(behaviour: Behaviour):
    async with (
        scripted_engine(behaviour) as bad,
        scripted_engine() as good,
        running_router(bad, good) as router,
    ):
        got = [await router.ask() for _ in range(2)]
    assert [(answer.status, answer.body, answer.complete) for answer in got] == [(200, HELLO, True)] * 2
    assert (len(bad.requests), len(good.requests)) == (1, 2)


@pytest.mark.parametrize("behaviour", CUT.values(), ids=CUT.keys())
async def test_without_another_engine_it_is_an_error(behaviour: Behaviour):
    async with scripted_engine(behaviour) as engine, running_router(engine) as router:
        answer = await router.ask()
    assert (answer.status, answer.error["code"]) == (502, "engine_failed")


@pytest.mark.parametrize("behaviour", WHOLE.values(), ids=WHOLE.keys())
async def test_a_whole_answer_passes_however_it_is_framed(behaviour: Behaviour):
    async with scripted_engine(behaviour) as engine, running_router(engine) as router:
        answer = await router.ask()
    assert (answer.status, answer.body.strip(), answer.complete) == (200, HELLO, True)


LARGE = HELLO.replace(b"hello", b"x" * 3_000_000)


@pytest.mark.parametrize(
    "data",
    [SHORT % (len(LARGE) - 9) + LARGE, CHUNKED + chunk(HELLO[:-20]) + LAST_CHUNK],
    ids=["longer than its length", "chunks that end too early"],
)
async def test_an_answer_that_was_begun_and_ends_in_the_middle_is_never_completed(data: bytes):
    async with scripted_engine(answers(data)) as engine, running_router(engine) as router:
        answer = await router.ask()
    assert (answer.status, answer.complete) == (200, False)


async def test_an_endless_answer_without_a_length_is_given_up():
    async def endless(request: EngineRequest, wire: Wire) -> None:
        wire.write(UNTIL_CLOSE + b'{"a":"' + b"x" * 9_000_000)

    async with scripted_engine(endless) as engine, running_router(engine) as router:
        answer = await router.ask()
    assert answer.status == 502
    assert "no length" in answer.error["message"]


async def test_what_is_no_json_ends_as_its_framing_says():
    data = b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\nconnection: close\r\n\r\n\0\1"
    async with scripted_engine(dies_after(data)) as engine, running_router(engine) as router:
        answer = await router.ask(b'{"model":"tiny","input":"x"}', path="/v1/embeddings")
    assert (answer.status, answer.body, answer.complete) == (200, b"\0\1", True)
