"""The router's side of one connection to an engine: writes a request as bytes, reads the response, tells the exchange."""

import asyncio
import socket
from typing import Any, Final, Protocol, cast

import httptools

from workslice_router import dead_peer
from workslice_router.forwarded_headers import NO_BODY, Headers
from workslice_router.response_head import ResponseHead, response_head, usual_head
from workslice_router.whole_chunks import whole_chunks

_LARGEST_HEAD: Final = 64 * 1024
_LARGEST_COPIED: Final = 64 * 1024
"""A body up to this size is sent in one piece with its head: copying it costs less than sending two."""
_FIRST_STATUS: Final = 100
_SWITCHING_PROTOCOLS: Final = 101
_FIRST_FINAL_STATUS: Final = 200
_LAST_STATUS: Final = 599


class ResponseReader(Protocol):
    """Whoever asked: gets the response in this order, each call at most once per read from the socket."""

    def response_started(self, head: ResponseHead) -> None:
        """The head of the final response is complete."""

    def response_body(self, data: bytes) -> None:
        """Some bytes of the body, without transfer coding."""

    def response_complete(self) -> None:
        """The response is whole; the connection is no longer the reader's."""

    def response_lost(self, detail: str) -> None:
        """The engine closed the connection, or broke the protocol, before the response was whole."""


class EngineConnection(asyncio.Protocol):
    """Carries one request at a time; between requests it lies in IdleConnections."""

    __slots__ = (
        "_body_parts",
        "_complete",
        "_head",
        "_head_bytes",
        "_head_complete",
        "_in_whole_chunks",
        "_keep_alive",
        "_parser",
        "_paused",
        "_reader",
        "_status",
        "_transport",
        "_unacceptable",
        "_until_close",
        "address",
        "idle",
        "idle_since",
        "response_begun",
    )

    def __init__(self, address: tuple[str, int], idle: "IdleConnections") -> None:
        self.address = address
        self.idle = idle
        self.idle_since = 0.0
        self.response_begun = False
        """Whether any byte of the current response has come."""
        self._reader: ResponseReader | None = None
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._parser: Any = None  # made for the first response that needs it
        self._in_whole_chunks = False
        self._reset()

    def _reset(self) -> None:
        self._head: Headers = []
        self._head_bytes = 0
        self._head_complete = self._complete = self._keep_alive = self._until_close = False
        self._status = 0
        self._unacceptable = ""
        self._body_parts: list[bytes] = []

    @property
    def usable(self) -> bool:
        """Whether a request may be written to it."""
        return self._transport is not None and not self._transport.is_closing()

    def request(self, reader: ResponseReader, head: bytes, body: bytes) -> None:
        """Send a request; its response goes to `reader`."""
        assert self._transport is not None
        assert self._reader is None
        self._reader = reader
        self.response_begun = False
        if len(body) <= _LARGEST_COPIED:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def abort(self) -> None:
        """Forget the reader and reset the connection: the engine sees at once that nobody waits any more."""
        self._reader = None
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        """Stop reading until resume_reading: the client is slower than the engine."""
        if self.usable and not self._paused:
            assert self._transport is not None
            self._paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self._paused:
            self._paused = False
            if self.usable:
                assert self._transport is not None
                self._transport.resume_reading()

    def lose_if_unacknowledged(self, seconds: float) -> bool:
        """Whether the engine's machine has left the request unacknowledged for this long; then the response is lost."""
        if not self.usable:
            return False
        assert self._transport is not None
        if dead_peer.unacknowledged_seconds(self._transport.get_extra_info("socket")) < seconds:
            return False
        self._break("the engine's node does not acknowledge the request")
        return True

    # --- asyncio.Protocol -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class, which is no subclass
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dead_peer.end_when_silent(connection)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; a response that ends with it is now whole, any other one is lost."""
        self._transport = None
        self.idle.forget(self)
        reader, self._reader = self._reader, None
        if reader is None:
            return
        if self._until_close and exc is None:
            reader.response_complete()
        else:
            reader.response_lost(str(exc) if exc else "the engine closed the connection")

    def data_received(self, data: bytes) -> None:
        """Parse what came and pass it on in one go."""
        if self._reader is None:  # an idle engine has nothing to say; whatever this is must not become an answer
            self.abort()
            return
        if self._in_whole_chunks:
            if self._relay_chunks(self._reader, data):
                return
            self._parse_from_a_chunk_on()
        elif not self.response_begun:
            self.response_begun = True
            if self._relay_usual(self._reader, data):
                return
        broken = ""
        try:
            if self._parser is None:
                self._parser = httptools.HttpResponseParser(self)
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            broken = f"not a valid HTTP response: {error}"
        if self._head_complete:
            self._pass_on(broken)
            return
        self._head_bytes += len(data)
        if self._unacceptable:
            broken = f"not an answer that HTTP/1.1 allows: {self._unacceptable}"
        if not broken and self._head_bytes > _LARGEST_HEAD:
            broken = "the response head is too large"
        if broken:
            self._break(broken)

    def _relay_usual(self, reader: ResponseReader, data: bytes) -> bool:
        """Pass on a response that begins as usual, without a parser, if it is whole or comes in whole chunks."""
        end = data.find(b"\r\n\r\n")
        head = usual_head(data, end)
        if head is None:
            return False
        body = data[end + 4 :]
        if head.chunked:
            if whole_chunks(body) is None:
                return False
            self._in_whole_chunks = True
            reader.response_started(head)
            return self._reader is not reader or self._relay_chunks(reader, body)
        if len(body) != head.length:
            return False
        reader.response_started(head)
        if body and self._reader is reader:
            reader.response_body(body)
        self._relay_end(reader)
        return True

    def _relay_chunks(self, reader: ResponseReader, data: bytes) -> bool:
        """Pass on what came after whole chunks, if that is whole chunks again."""
        found = whole_chunks(data)
        if found is None:
            return False
        payload, ends = found
        if payload:
            reader.response_body(payload)
        if ends:
            self._relay_end(reader)
        return True

    def _relay_end(self, reader: ResponseReader) -> None:
        self._in_whole_chunks = False
        if self._reader is reader:  # else it has aborted meanwhile
            self._reader = None
            self._finish(reusable=True)
            reader.response_complete()

    def _parse_from_a_chunk_on(self) -> None:
        """Leave the rest of the response to a parser, which gets the framing of its head."""
        self._in_whole_chunks = False
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        self._status, self._head = 0, []

    def _pass_on(self, broken: str) -> None:
        reader = self._reader
        assert reader is not None
        if self._status:
            status, self._status = self._status, 0
            head, self._head = self._head, []
            reader.response_started(response_head(status, head))
        if self._body_parts and self._reader is reader:
            parts, self._body_parts = self._body_parts, []
            reader.response_body(parts[0] if len(parts) == 1 else b"".join(parts))
        if self._reader is not reader:  # the reader has aborted meanwhile
            return
        if self._complete:
            self._reader = None
            self._finish(reusable=self._keep_alive and not broken)
            reader.response_complete()
        elif broken:
            self._break(broken)

    def _finish(self, *, reusable: bool) -> None:
        transport = self._transport
        if transport is None:
            return
        # An engine that answers before it has read the whole request leaves the rest of it in our buffer.
        if reusable and self.usable and transport.get_write_buffer_size() == 0:
            self.resume_reading()
            self._reset()
            self.idle.put(self)
        else:
            transport.abort()

    def _break(self, detail: str) -> None:
        reader, self._reader = self._reader, None
        if self._transport is not None:
            self._transport.abort()
        if reader is not None:
            reader.response_lost(detail)

    # --- httptools callbacks; nothing is passed on from inside them -------------------------------------------------------

    def on_message_begin(self) -> None:
        """A response begins; a second one is nobody's, so the connection is not kept."""
        if self._complete:
            self._keep_alive = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; those after the body (trailers) are dropped."""
        if not self._head_complete:
            self._head.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """A head is complete; interim ones (1xx) are dropped."""
        if self._complete:
            return
        status = self._parser.get_status_code()
        coding: bytes | None = None
        until_close = status not in NO_BODY
        for name, value in self._head:
            if name == b"content-length":
                until_close = False
            elif name == b"transfer-encoding":
                coding = value if coding is None else coding + b"," + value
                until_close = False
        if not _FIRST_STATUS <= status <= _LAST_STATUS or status == _SWITCHING_PROTOCOLS:
            self._unacceptable = f"status {status}"
            return
        if coding is not None and coding.strip().lower() != b"chunked":
            self._unacceptable = "a Transfer-Encoding other than chunked"
            return
        if status < _FIRST_FINAL_STATUS:
            self._head = []
            return
        self._head_complete = True
        self._status = status
        # Only valid inside the callbacks: after feed_data it says False.
        self._keep_alive = self._parser.should_keep_alive()
        self._until_close = until_close

    def on_body(self, data: bytes) -> None:
        """Some of the body."""
        if not self._complete:
            self._body_parts.append(data)

    def on_message_complete(self) -> None:
        """The whole response is here (or an interim one is)."""
        if self._head_complete:
            self._complete = True


class IdleConnections:
    """Open connections to engines that carry nothing now, newest first, by address."""

    def __init__(self, keep_seconds: float = 3.0) -> None:
        # vLLM closes after 5 s; a request must not meet that moment.
        self._keep_seconds = keep_seconds
        self._by_address: dict[tuple[str, int], list[EngineConnection]] = {}
        self.clock = asyncio.get_running_loop().time

    def put(self, connection: EngineConnection) -> None:
        """Keep a connection for the next request to its address."""
        connection.idle_since = self.clock()
        self._by_address.setdefault(connection.address, []).append(connection)

    def take(self, address: tuple[str, int]) -> EngineConnection | None:
        """The connection used last, if one is open and young enough."""
        connections = self._by_address.get(address)
        oldest = self.clock() - self._keep_seconds
        while connections:
            connection = connections.pop()
            if connection.usable and connection.idle_since > oldest:
                return connection
            connection.abort()
        return None

    def forget(self, connection: EngineConnection) -> None:
        """A connection has closed."""
        connections = self._by_address.get(connection.address)
        if connections and connection in connections:
            connections.remove(connection)

    def close_old(self) -> None:
        """Close what has been idle for too long; call it at least once a second."""
        oldest = self.clock() - self._keep_seconds
        for address, connections in list(self._by_address.items()):
            old = [connection for connection in connections if connection.idle_since <= oldest]
            kept = [connection for connection in connections if connection.idle_since > oldest]
            if kept:
                self._by_address[address] = kept
            else:
                del self._by_address[address]
            for connection in old:
                connection.abort()

    def close_all(self) -> None:
        """Close every idle connection."""
        for connections in self._by_address.values():
            for connection in connections:
                connection.abort()
        self._by_address.clear()

    def __len__(self) -> int:
        return sum(map(len, self._by_address.values()))


async def open_connection(address: tuple[str, int], idle: IdleConnections, seconds: float) -> EngineConnection:
    """A new connection to an engine; raises OSError (TimeoutError after `seconds`)."""
    async with asyncio.timeout(seconds):
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: EngineConnection(address, idle), *address)
        return connection
