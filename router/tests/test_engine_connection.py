"""Responses of engines, fed in pieces of every size."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_engine import HELLO, LAST_CHUNK, STREAM_HEAD, chunk, response, token

from workslice_router.engine_connection import EngineConnection, IdleConnections
from workslice_router.response_head import ResponseHead

CHUNKED = STREAM_HEAD + chunk(token("a")) + chunk(token("b")) + LAST_CHUNK
WITH_TRAILER = STREAM_HEAD + chunk(token("a")) + b"0\r\nx-trailer: 1\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + response(HELLO)
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
CLOSING = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi"
OLD = b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi"
RESPONSES = [response(HELLO), response(b""), CHUNKED, WITH_TRAILER, INTERIM, EMPTY, CLOSING, OLD]


class FakeTransport:
    """Remembers what the connection does to it."""

    def __init__(self) -> None:
        self.aborted = False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def get_extra_info(self, name: str) -> socket.socket:
        return self.socket

    def writelines(self, data: Any) -> None: ...
    def write(self, data: Any) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def close(self) -> None:
        self.socket.close()


class Reader:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.ends: list[str] = []

    def response_started(self, head: ResponseHead) -> None:
        assert not self.status
        self.status, self.headers = head.status, head.headers

    def response_body(self, data: bytes) -> None:
        assert self.status
        assert not self.ends
        self.body += data

    def response_complete(self) -> None:
        self.ends.append("complete")

    def response_lost(self, detail: str) -> None:
        self.ends.append("lost")


class Exchanged:
    """A connection that has sent one request, and who waits for its response."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.idle = self.loop.run_until_complete(self._idle())
        self.transport = FakeTransport()
        self.connection = EngineConnection(("engine", 1), self.idle)
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self.reader = Reader()
        self.connection.request(self.reader, b"head", b"body")

    async def _idle(self) -> IdleConnections:
        return IdleConnections()

    def feed(self, pieces: list[bytes]) -> "Exchanged":
        for piece in pieces:
            if piece and not self.transport.aborted:
                self.connection.data_received(piece)
        return self

    def close(self) -> None:
        self.transport.close()
        self.loop.close()

    @property
    def outcome(self) -> tuple[object, ...]:
        reader = self.reader
        return reader.status, reader.headers, reader.body, reader.ends, len(self.idle)


def outcome(pieces: list[bytes], *, then_closed: bool = False) -> tuple[object, ...]:
    one = Exchanged().feed(pieces)
    if then_closed:
        one.connection.connection_lost(None)
    result = one.outcome
    one.close()
    return result


def cuts(whole: bytes, positions: list[int]) -> Iterator[bytes]:
    for start, end in zip([0, *positions], [*positions, len(whole)], strict=True):
        yield whole[start:end]


@pytest.mark.parametrize("whole", RESPONSES)
def test_a_response_split_at_any_byte_is_the_same_response(whole: bytes):
    expected = outcome([whole])
    assert expected[3] == ["complete"]
    for cut in range(len(whole)):
        assert outcome([whole[:cut], whole[cut:]]) == expected, cut


@given(st.sampled_from(RESPONSES), st.data())
def test_a_response_in_many_pieces_is_the_same_response(whole: bytes, data: st.DataObject):
    positions = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=15)))
    assert outcome(list(cuts(whole, positions))) == outcome([whole])


@pytest.mark.parametrize("whole", RESPONSES)
def test_a_response_cut_at_any_byte_is_lost_and_never_complete(whole: bytes):
    for cut in range(len(whole)):
        assert outcome([whole[:cut]], then_closed=True)[3] == ["lost"], cut


@given(st.binary(max_size=300))
def test_nonsense_never_raises_and_never_completes_a_response(data: bytes):
    one = Exchanged().feed([data])
    one.connection.connection_lost(None)
    assert one.reader.ends == ["lost"]
    one.close()


@pytest.mark.parametrize(("whole", "kept"), [(response(HELLO), 1), (CHUNKED, 1), (CLOSING, 0), (OLD, 0)])
def test_only_a_connection_that_may_be_used_again_is_kept(whole: bytes, kept: int):
    assert outcome([whole])[4] == kept


@pytest.mark.parametrize("more", [b"x", b"HTTP/1.1 200 OK\r\n", response(b"of nobody")])
def test_bytes_after_a_response_spoil_the_connection(more: bytes):
    together = Exchanged().feed([response(HELLO) + more])
    afterwards = Exchanged().feed([response(HELLO), more])
    for one in (together, afterwards):
        assert (one.reader.body, one.reader.ends) == (HELLO, ["complete"])
        assert one.transport.aborted
        one.close()


def test_a_response_without_length_is_complete_when_the_engine_closes():
    assert outcome([b"HTTP/1.1 200 OK\r\n\r\n", b"abc"], then_closed=True)[2:4] == (b"abc", ["complete"])
