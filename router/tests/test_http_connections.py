import asyncio
import json
import socket

import pytest
from router_under_test import CHAT, chat, post, running_router, until
from scripted_engine import (
    HELLO,
    STREAM_HEAD,
    EngineRequest,
    Wire,
    chunk,
    response,
    scripted_engine,
    token,
)

GET = b"GET /v1/models HTTP/1.1\r\nhost: r\r\n\r\n"


async def test_the_models_come_from_the_table():
    async with running_router() as router, router.client() as client:
        await client.send(GET)
        answer = await client.answer()
        assert [model["id"] for model in json.loads(answer.body)["data"]] == ["tiny", "tiny-alias"]
        await client.send(GET.replace(b"models", b"models/tiny"))
        assert json.loads((await client.answer()).body)["id"] == "tiny"
        await client.send(GET.replace(b"models", b"models/other"))
        assert (await client.answer()).status == 404


async def test_head_is_answered_like_get_without_a_body():
    async with running_router() as router, router.client() as client:
        await client.send(GET.replace(b"GET", b"HEAD"))
        head = await client.answer(bodiless=True)
        assert int(head.headers["content-length"]) > 0
        await client.send(GET)
        assert (await client.answer()).status == 200


async def test_a_wrong_method_says_which_one_is_right():
    async with running_router() as router, router.client() as client:
        await client.send(GET.replace(b"/v1/models", CHAT.encode()))
        answer = await client.answer()
    assert (answer.status, answer.headers["allow"], answer.error["code"]) == (405, "POST", "method_not_allowed")


async def test_the_engines_admin_paths_are_unknown():
    async with scripted_engine() as engine, running_router(engine) as router:
        for path in (
            "/sleep",
            "/collective_rpc",
            "/metrics",
            "/v1/../metrics",
            "//metrics",
            "/v1/chat/completions%2f..%2fsleep",
        ):
            answer = await router.ask(path=path)
            assert (answer.status, answer.error["type"]) == (404, "invalid_request_error")
    assert engine.requests == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"model":1}', b'{"messages":[]}', b"\xff", b"[" * 100_000, b'{"model":"tiny","model":"tiny"}'],
)
async def test_a_body_that_is_no_request_is_refused_and_the_connection_lives(body: bytes):
    async with scripted_engine() as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(body))
        assert (await client.answer()).status == 400
        await client.send(post(chat()))
        assert (await client.answer()).status == 200
    assert len(engine.requests) == 1


async def test_pipelined_requests_are_answered_in_order():
    seen = 0

    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        nonlocal seen
        seen += 1
        wire.write(response(b'{"n":%d}' % seen))

    async with scripted_engine(behaviour) as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat()) + GET + post(b"{") + post(chat()))
        got = [await client.answer() for _ in range(4)]
    assert [answer.status for answer in got] == [200, 200, 400, 200]
    assert (got[0].body, got[3].body) == (b'{"n":1}', b'{"n":2}')


async def test_what_a_client_pipelines_behind_a_running_request_is_held_up_to_a_limit():
    release = asyncio.Event()

    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        await release.wait()
        wire.write(response(HELLO))

    async with scripted_engine(behaviour) as engine, running_router(engine) as router, router.client() as client:
        client.writer.transport.set_write_buffer_limits(0)
        await client.send(post(chat()))
        await until(lambda: engine.requests)
        client.writer.write(post(chat("y" * 20_000_000, max_tokens=1)))  # more than every socket buffer on the way
        (connection,) = router.data_path.connections
        await until(lambda: connection._reading_paused, "the router to stop reading")
        assert connection._held_bytes < 600_000
        release.set()
        assert (await client.answer()).status == 200
        assert (await client.answer()).status == 400  # far larger than every pool's context


async def test_a_client_that_waits_for_100_continue_gets_it():
    async with scripted_engine() as engine, running_router(engine) as router, router.client() as client:
        body = chat()
        await client.send(post(body, headers=["expect: 100-continue"]).removesuffix(body))
        assert (await client.head()).status == 100
        await client.send(body)
        assert (await client.answer()).status == 200
    assert engine.requests[0].header("expect") is None


async def test_100_continue_waits_for_the_answer_before_it():
    release = asyncio.Event()

    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        await release.wait()
        wire.write(response(HELLO))

    async with scripted_engine(behaviour) as engine, running_router(engine) as router, router.client() as client:
        body = chat()
        await client.send(post(body))
        await until(lambda: engine.requests)
        await client.send(post(body, headers=["expect: 100-continue"]).removesuffix(body))
        release.set()
        assert (await client.answer()).status == 200
        assert (await client.head()).status == 100
        await client.send(body)
        assert (await client.answer()).status == 200


async def test_a_body_over_the_limit_is_answered_while_the_client_is_still_sending():
    async with scripted_engine() as engine, running_router(engine, max_body_bytes=1000) as router:
        async with router.client() as client:
            client.writer.write(post(b"x" * 5_000_000))
            answer = await client.answer()
            assert (answer.status, answer.headers["connection"]) == (413, "close")
            assert "1000 bytes" in answer.error["message"]
        async with router.client() as client:
            await client.send(
                b"POST /v1/completions HTTP/1.1\r\nhost: r\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"x" * 2000)
            )
            assert (await client.answer()).status == 413
    assert not engine.requests


async def test_a_client_that_reads_only_after_it_has_sent_everything_still_gets_the_refusal():
    def send_all_then_read(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(post(b"x" * 20_000_000))  # more than all buffers on the way
            return client.recv(65536)

    async with running_router(max_body_bytes=1000) as router:
        answer = await asyncio.to_thread(send_all_then_read, router.port)
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_bodies_beyond_what_a_router_may_hold_are_refused_and_the_smaller_ones_go_on():
    small = chat("s" * 1000)
    async with (
        scripted_engine() as engine,
        running_router(engine, max_held_bytes=3_000_000) as router,
        router.client() as first,
        router.client() as second,
        router.client() as third,
    ):
        await first.send(post(small)[:-1])
        await second.send(post(b"x" * 2_000_000)[:-1])
        await until(lambda: sum(one.held_bytes for one in router.data_path.connections) > 2_000_000)
        await third.send(post(b"x" * 2_500_000)[:-1])
        answer = await third.answer()
        assert (answer.status, answer.headers["retry-after"], answer.error["code"]) == (503, "1", "router_busy")
        await second.send(b"x")
        assert (await second.answer()).status == 400
        await first.send(small[-1:])
        assert (await first.answer()).status == 200


async def test_a_chunked_body_reaches_the_engine_with_its_length():
    head = post(b"", headers=["transfer-encoding: chunked"]).replace(b"content-length: 0\r\n", b"")
    body = chat()
    async with scripted_engine() as engine, running_router(engine) as router, router.client() as client:
        await client.send(head + chunk(body[:10]) + chunk(body[10:]) + b"0\r\nx-trailer: 1\r\n\r\n")
        assert (await client.answer()).status == 200
    assert engine.requests[0].body == body
    assert engine.requests[0].header("content-length") == str(len(body))
    assert engine.requests[0].header("transfer-encoding") is None


@pytest.mark.parametrize(("version", "connection", "stays"), [
    ("1.1", None, True),
    ("1.1", "close", False),
    ("1.0", None, False),
    ("1.0", "keep-alive", True),
])  # fmt: skip
async def test_the_connection_stays_as_the_client_asks(version: str, connection: str | None, stays: bool):
    headers = [f"connection: {connection}"] if connection else []
    async with scripted_engine() as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat(), version=version, headers=headers))
        answer = await client.answer()
        assert answer.complete
        if stays:
            assert answer.headers.get("connection", "keep-alive") == "keep-alive"
            await client.send(post(chat(), version=version, headers=headers))
            assert (await client.answer()).status == 200
        else:
            assert answer.headers["connection"] == "close"
            assert await client.closed()


async def test_an_upgrade_is_ignored_and_the_request_answered():
    headers = ["connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABk"]
    async with scripted_engine() as engine, running_router(engine) as router, router.client() as client:
        for _ in range(2):
            await client.send(post(chat(), headers=headers))
            assert (await client.answer()).status == 200
    assert engine.requests[0].body == chat()
    assert engine.requests[0].header("upgrade") is None


@pytest.mark.parametrize("start", [b"POST /v1/chat/completions HTTP/1.1\r\nhost: r\r\n", b"P", post(chat())[:-3]])
async def test_a_request_that_does_not_arrive_is_ended_with_408(start: bytes):
    async with running_router(head_timeout=0.2, body_timeout=0.2) as router, router.client() as client:
        await client.send(start)
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (408, "close")
        assert await client.closed()


async def test_a_head_that_drips_gets_no_more_time():
    async with running_router(head_timeout=0.3) as router, router.client() as client:

        async def drip() -> None:
            await client.send(b"GET /v1/models HTTP/1.1\r\n")
            while True:
                await client.send(b"x: 1\r\n")
                await asyncio.sleep(0.02)

        task = asyncio.create_task(drip())
        assert (await client.answer()).status == 408
        task.cancel()


async def test_an_idle_connection_is_closed_in_the_end():
    async with running_router(keep_alive_timeout=0.2) as router, router.client() as client:
        await client.send(GET)
        await client.answer()
        assert await client.closed()


async def test_small_writes_leave_at_once_on_both_sides():
    """Nagle's algorithm with delayed acknowledgements costs 40 ms per small chunk."""

    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(token("a")))

    def nodelay(transport: asyncio.BaseTransport) -> int:
        option: int = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        return option

    async with scripted_engine(behaviour) as engine, running_router(engine) as router, router.client() as client:
        await client.send(post(chat(stream=True)))
        await client.head()
        (connection,), (exchange,) = router.data_path.connections, router.data_path.exchanges
        engine_side = exchange._attempt._engine  # type: ignore[union-attr]
        assert nodelay(connection._transport) == nodelay(engine_side._transport) == 1  # type: ignore[arg-type, union-attr]
        client.leave()
        await until(router.at_rest)
