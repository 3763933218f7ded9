"""What an engine may say in HTTP, and what is no answer: read alike however the bytes are split, and never left waiting."""

import asyncio

import pytest
from router_under_test import chat, post, running_router
from scripted_engine import (
    DONE,
    HELLO,
    STREAM_HEAD,
    answers,
    dies_after,
    response,
    scripted_engine,
    stream,
    token,
)

from workslice_router.engine_connection import EngineConnection, IdleConnections
from workslice_router.forwarded_headers import Headers
from workslice_router.response_head import ResponseHead
from workslice_router.routing_table import ReplicaSpec

HEAD = b"HTTP/1.1 200 OK\r\n"
NOT_AN_ANSWER = {
    "status 0": b"HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n",
    "status 99": b"HTTP/1.1 099 X\r\ncontent-length: 0\r\n\r\n",
    "status 600": b"HTTP/1.1 600 X\r\ncontent-length: 0\r\n\r\n",
    "other protocol": b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nabc",
    "two lengths": HEAD + b"content-length: 5\r\ncontent-length: 3\r\n\r\nhello",
    "length and chunks": HEAD + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "compressed chunks": HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "unknown coding": HEAD + b"transfer-encoding: gzip\r\n\r\nhello",
    "folded header": HEAD + b"x: a\r\n b: c\r\ncontent-length: 5\r\n\r\nhello",
    "bare line feed": HEAD + b"x: a\ny: b\r\ncontent-length: 5\r\n\r\nhello",
    "bare carriage return": HEAD + b"x: a\ry: b\r\ncontent-length: 5\r\n\r\nhello",
    "zero byte": HEAD + b"x: a\0b\r\ncontent-length: 5\r\n\r\nhello",
    "HTTP/2": b"HTTP/2 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    "zeros": b"\0\0\0\0",
}
ANSWERS = {
    "length": response(HELLO),
    "chunks": stream(token("a"), token("b"), DONE),
    "chunk extensions and trailers": STREAM_HEAD + b"3;a=b\r\nabc\r\n0\r\nx-trailer: 1\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + response(HELLO),
    "nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
    "not modified": b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n",
    "latin-1 header": HEAD + b"x: \xff\xe9\r\ncontent-length: 0\r\n\r\n",
    "no reason": b"HTTP/1.1 200\r\ncontent-length: 5\r\n\r\nhello",
    "until close": HEAD + b"\r\nhello",
    "two answers": response(b"first") + response(b"second"),
}


class Transport(asyncio.Transport):
    """Takes what is written and tells its protocol of an abort, as a loop would."""

    def __init__(self, protocol: EngineConnection) -> None:
        super().__init__()
        self.protocol = protocol
        self.closing = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self

    def setsockopt(self, *arguments: int) -> None: ...

    def is_closing(self) -> bool:
        return self.closing

    def writelines(self, data: object) -> None: ...
    def write(self, data: object) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def abort(self) -> None:
        self.closing = True


class Reading:
    """Remembers what it is told of a response."""

    def __init__(self) -> None:
        self.head: tuple[int, Headers] | None = None
        self.body = b""
        self.ends: list[str] = []

    def response_started(self, head: ResponseHead) -> None:
        self.head = (head.status, head.headers)

    def response_body(self, data: bytes) -> None:
        self.body += data

    def response_complete(self) -> None:
        self.ends.append("complete")

    def response_lost(self, detail: str) -> None:
        self.ends.append(detail)


async def read(*pieces: bytes) -> tuple[object, ...]:
    connection = EngineConnection(("engine", 1), IdleConnections())
    transport = Transport(connection)
    connection.connection_made(transport)
    reading = Reading()
    connection.request(reading, b"", b"")
    for piece in pieces:
        if piece and not transport.closing:
            connection.data_received(piece)
    connection.connection_lost(None)
    assert len(reading.ends) == 1, "a response has exactly one end"
    return reading.head, reading.body, reading.ends


@pytest.mark.parametrize("data", [*NOT_AN_ANSWER.values(), *ANSWERS.values()], ids=[*NOT_AN_ANSWER, *ANSWERS])
async def test_a_split_at_any_byte_changes_nothing(data: bytes):
    whole = await read(data)
    for cut in range(1, len(data)):
        assert await read(data[:cut], data[cut:]) == whole, cut
    assert await read(*(data[index : index + 1] for index in range(len(data)))) == whole


@pytest.mark.parametrize("data", NOT_AN_ANSWER.values(), ids=NOT_AN_ANSWER)
async def test_what_is_no_answer_becomes_502_at_once(data: bytes):
    async with scripted_engine(answers(data)) as engine, running_router(engine) as router:
        answer = await router.ask()
        assert (answer.status, answer.error["code"]) == (502, "engine_failed")
        assert router.at_rest()
    assert len(engine.requests) == 1


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_body_has_no_length_either(status: int):
    data = b"HTTP/1.1 %d X\r\n\r\n" % status
    async with scripted_engine(answers(data)) as engine, running_router(engine) as router, router.client() as client:
        for _ in range(2):
            await client.send(post(chat()))
            answer = await client.answer(bodiless=True)
            assert answer.status == status
            assert not {"content-length", "transfer-encoding"} & set(answer.headers)


async def test_text_that_is_longer_than_its_length_is_cut_there_and_the_connection_not_used_again():
    text = response(b"hello", headers=b"content-type: text/plain\r\n")
    async with (
        scripted_engine(answers(text + b", and more")) as engine,
        running_router(engine) as router,
    ):
        for _ in range(2):
            answer = await router.ask()
            assert (answer.body, answer.complete) == (b"hello", True)
    assert engine.opened == 2


async def test_a_replica_whose_name_cannot_be_resolved_is_unreachable_and_does_not_hang():
    async with scripted_engine(dies_after(b"")) as engine, running_router(engine) as router:
        for number, host in enumerate(("a..b", "x" * 70 + ".example", "no-such-host.invalid")):
            router.table.put_replicas("default/short", [ReplicaSpec(f"replica-{number}", host, 80)])
            router.table.commit()
            answer = await router.ask(chat())
            assert (answer.status, answer.error["code"]) == (503, "engine_unreachable"), host
            assert router.at_rest()
