import asyncio
import json

import pytest
from router_under_test import CHAT, chat, pool, post, running_router, until
from scripted_engine import (
    DONE,
    HELLO,
    LAST_CHUNK,
    STREAM_HEAD,
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

from workslice_router.text_size import TextKind


async def test_an_answer_reaches_the_client_unchanged_with_the_headers_that_say_who_gave_it():
    async with scripted_engine() as engine, running_router(engine) as router:
        answer = await router.ask(headers=["x-request-id: mine-1"])
    assert (answer.status, answer.body, answer.complete) == (200, HELLO, True)
    assert answer.headers["x-workslice-class"] == "short"
    assert answer.headers["x-workslice-pool"] == "default/short"
    assert answer.headers["x-workslice-replica"] == "engine-0"
    assert answer.headers["x-workslice-queue-ms"] == "0"
    assert answer.headers["x-request-id"] == "mine-1"


async def test_the_body_reaches_the_engine_byte_for_byte():
    body = b'{ "messages" : [{"role":"user","content":"\\u0041\xc3\xa9"}],\n "user":"u", "x":1.0, "max_tokens":8,"model":"tiny" }'
    async with scripted_engine() as engine, running_router(engine) as router:
        await router.ask(body)
    assert engine.requests[0].body == body


async def test_an_alias_and_steering_fields_are_spliced_and_the_rest_stays():
    body = b'{"model":"tiny-alias","cache_salt":"s","messages":[],"priority":-9, "max_tokens":8}'
    async with scripted_engine() as engine, running_router(engine) as router:
        await router.ask(body)
    assert json.loads(engine.requests[0].body) == {"model": "tiny", "messages": [], "max_tokens": 8}


async def test_hop_by_hop_and_steering_headers_stay_at_the_router_and_the_others_pass():
    sent = [
        "authorization: Bearer secret",
        "x-vllm-priority: -5",
        "X-Data-Parallel-Rank: 1",
        "x-workslice-class: short",
        "accept-encoding: gzip",
        "connection: keep-alive, x-private",
        "x-private: 1",
        "te: trailers",
        "traceparent: 00-1-2-01",
        "User-Agent: me",
        "x-session-id: s",
    ]
    async with scripted_engine() as engine, running_router(engine) as router:
        answer = await router.ask(headers=sent)
    assert answer.status == 200
    names = {name for name, _ in engine.requests[0].headers}
    assert names == {
        "host",
        "x-request-id",
        "content-length",
        "content-type",
        "traceparent",
        "user-agent",
        "x-session-id",
    }
    assert engine.requests[0].header("host") == engine.address


async def test_a_repeated_request_id_is_unique_at_the_engine():
    async with scripted_engine() as engine, running_router(engine) as router:
        for _ in range(2):
            await router.ask(headers=["x-request-id: same"])
        answer = await router.ask(headers=["x-request-id: bad id with spaces"])
    ids = [request.header("x-request-id") or "" for request in engine.requests]
    assert len(set(ids)) == 3
    assert ids[0].startswith("same-")
    assert len(answer.headers["x-request-id"]) == 32


async def test_a_stream_is_relayed_event_by_event_as_it_comes():
    go_on = asyncio.Event()

    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(token("a")))
        await go_on.wait()
        wire.write(chunk(token("b")) + chunk(DONE) + LAST_CHUNK)

    async with scripted_engine(behaviour) as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat(stream=True)))
        head = await client.head()
        await client._chunk(head)
        assert head.body == token("a")  # while the engine is still silent
        go_on.set()
        while not head.complete:
            await client._chunk(head)
    assert head.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert head.body == token("a") + token("b") + DONE


async def test_keep_alive_comments_before_the_first_token_do_not_commit_the_answer():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(b": keep-alive\n\n"))
        await asyncio.sleep(0.01)
        wire.abort()

    async with (
        scripted_engine(behaviour) as bad,
        scripted_engine(answers(stream(token("ok"), DONE))) as good,
        running_router(bad, good) as router,
    ):
        both = [await router.ask(chat(stream=True)) for _ in range(2)]
    assert [answer.status for answer in both] == [200, 200]
    assert all(answer.body.endswith(token("ok") + DONE) for answer in both)
    assert len(bad.requests) == 1


async def test_one_connection_to_the_engine_carries_many_requests():
    async with scripted_engine() as engine, running_router(engine) as router, router.client() as client:
        for _ in range(5):
            await client.send(post(chat()))
            assert (await client.answer()).status == 200
    assert (len(engine.requests), engine.opened) == (5, 1)


async def test_an_idle_engine_connection_is_closed_before_the_engine_would_close_it():
    async with scripted_engine() as engine, running_router(engine) as router:
        router.data_path.idle._keep_seconds = 0.2
        await router.ask()
        await until(lambda: engine.closed, "the idle connection's end")


async def test_the_body_is_forgotten_once_the_answer_has_begun():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(token("a")))

    async with scripted_engine(behaviour) as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat("x" * 3000, stream=True)))
        await client.head()
        assert [exchange.held_bytes for exchange in router.data_path.exchanges] == [0]
        client.leave()


async def test_a_slow_client_stops_the_engine_and_gets_everything():
    event = token("x" * 60_000)
    sent = 0

    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        nonlocal sent
        wire.write(STREAM_HEAD)
        for _ in range(300):
            await until(lambda: wire.unsent <= 65536, "the engine's buffer to drain")
            wire.write(chunk(event))
            sent += 1
        wire.write(chunk(DONE) + LAST_CHUNK)

    async with scripted_engine(behaviour) as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat(stream=True)))
        head = await client.head()
        last = -1
        while last != sent:  # the engine is stuck
            last = sent
            await asyncio.sleep(0.1)
        assert sent < 300
        while not head.complete:
            await client._chunk(head)
    assert head.body == event * 300 + DONE


async def test_a_response_without_length_ends_with_the_engines_connection():
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"
    async with scripted_engine(dies_after(head + HELLO)) as engine, running_router(engine) as router:
        answer = await router.ask()
    assert (answer.body, answer.complete) == (HELLO, True)


async def test_interim_responses_and_trailers_of_an_engine_are_dropped():
    data = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    data += chunk(HELLO) + b"0\r\nx-trailer: 1\r\n\r\n"
    async with scripted_engine(answers(data)) as engine, running_router(engine) as router:
        answer = await router.ask()
        assert "link" not in answer.headers
        assert (answer.status, answer.body, answer.complete) == (200, HELLO, True)
        assert (await router.ask()).status == 200
    assert engine.opened == 1


async def test_usage_in_answers_teaches_the_estimator():
    usage = b'{"choices":[],"usage":{"prompt_tokens":400,"completion_tokens":2,"total_tokens":402}}'
    events = stream(token("a"), b"data: " + usage + b"\n\n", DONE)
    async with scripted_engine(answers(response(usage))) as engine, running_router(engine) as router:
        before = router.data_path.estimator.ratio("tiny", TextKind.PROSE)
        await router.ask(chat("x" * 500))
        between = router.data_path.estimator.ratio("tiny", TextKind.PROSE)
        engine.behaviour = answers(events)
        await router.ask(chat("x" * 500, stream=True))
    assert before < between < router.data_path.estimator.ratio("tiny", TextKind.PROSE)


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings"])
async def test_every_endpoint_reaches_the_engine_under_its_own_path_without_the_query(path: str):
    body = {
        CHAT: chat(),
        "/v1/completions": b'{"model":"tiny","prompt":"a"}',
        "/v1/embeddings": b'{"model":"tiny","input":"a"}',
    }
    async with scripted_engine() as engine, running_router(engine) as router:
        assert (await router.ask(body[path], path=path + "?api-version=1")).status == 200
    assert engine.requests[0].line == f"POST {path} HTTP/1.1"


async def test_the_context_that_bounds_an_answer_is_told():
    async with scripted_engine() as engine, running_router(engine, spec=pool(context_tokens=4096)) as router:
        free = await router.ask(b'{"model":"tiny","messages":[]}')
        bounded = await router.ask()
    assert free.headers["x-workslice-context-limit"] == bounded.headers["x-workslice-context-limit"] == "4096"
