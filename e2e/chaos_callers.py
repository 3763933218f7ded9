"""Clients of a storm: each sends its request as an openai client would, leaves when the plan says so, and keeps all it saw."""

import asyncio
import contextlib
import json
import socket
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from typing import Any, Final

import httptools

from chaos_plan import Ask
from chaos_pods import HOST
from chaos_routers import Router, Routers, key_of

RETRIES: Final = 2
"""Of openai's client, by default."""
_RETRIED: Final = frozenset((408, 409, 429, *range(500, 600)))
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 8.0
PATIENCE_SECONDS: Final = 60.0
"""After which a request counts as one that hangs."""
_SMALL_BUFFER: Final = 4096
"""Bytes that the kernel keeps for a client that reads slowly."""


class End(StrEnum):
    """How one try of a request ended."""

    COMPLETE = "complete"
    CUT = "cut"
    LEFT = "the client left"
    REFUSED = "no connection"
    UNANSWERED = "closed without an answer"
    HANGS = "hangs"


@dataclass(slots=True)
class Try:
    """One HTTP request, and what came of it; times of the monotonic clock."""

    ask: Ask
    id: str
    """As the router and, with a suffix, engines know it."""
    router: str
    started: float
    reused: bool = False
    """It went over a connection that had carried another one."""
    ended: float = 0.0
    end: End = End.HANGS
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)

    @property
    def replica(self) -> str:
        """The last one that had it."""
        return self.headers.get("x-workslice-replica", "")

    def __str__(self) -> str:
        reason = self.headers.get("x-workslice-reason", "")
        return f"{self.id} ({self.router}, {self.replica or 'no replica'}): {self.status} {self.end} {reason} {self.body[-300:]!r}"


@dataclass(eq=False, slots=True)
class _Connection:
    router: Router
    generation: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Callers:
    """Everybody who asks; `tries` has all that was asked."""

    def __init__(self, routers: Routers) -> None:
        self.tries: list[Try] = []
        self._routers = routers
        self._kept: list[_Connection] = []

    async def ask(self, ask: Ask) -> None:
        """One request with its retries."""
        pause = _FIRST_PAUSE
        for attempt in range(RETRIES + 1):
            tried = await self._try(ask, attempt)
            if (
                tried.end is End.UNANSWERED and tried.reused
            ):  # HTTP clients repeat at once what met a closing connection
                tried = await self._try(ask, attempt)
            done = tried.end in (End.LEFT, End.HANGS) or (tried.status and tried.status not in _RETRIED)
            if done or tried.end is End.CUT:
                return
            await asyncio.sleep(min(float(tried.headers.get("retry-after", pause)), _LONGEST_PAUSE))
            pause *= 2

    def close(self) -> None:
        """Close the connections that are kept."""
        for connection in self._kept:
            connection.writer.transport.abort()
        self._kept.clear()

    async def _try(self, ask: Ask, attempt: int) -> Try:
        router = self._router(ask.router + attempt)
        tried = Try(ask, f"{ask.id}.{len(self.tries)}", router.name, monotonic())
        self.tries.append(tried)
        connection: _Connection | None = None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                connection = await self._connect(router, tried)
                await _Client(tried, connection).run()
        except TimeoutError:
            tried.end = End.HANGS
        except OSError:
            tried.end = End.REFUSED
        except asyncio.CancelledError:  # the storm ends before its time
            if connection is not None:
                connection.writer.transport.abort()
            raise
        tried.ended = monotonic()
        if connection is None:
            return tried
        if tried.end is End.COMPLETE and ask.keeps_connection and tried.headers.get("connection") != "close":
            self._kept.append(connection)
        else:
            connection.writer.transport.abort()
        return tried

    def _router(self, number: int) -> Router:
        """What a Service would choose: one in rotation, if there is one."""
        routers = [router for router in self._routers.all if router.in_rotation] or self._routers.all
        return routers[number % len(routers)]

    async def _connect(self, router: Router, tried: Try) -> _Connection:
        while self._kept:
            kept = self._kept.pop()
            if kept.router is router and kept.generation == len(router.logs) and not kept.reader.at_eof():
                tried.reused = True
                return kept
            kept.writer.transport.abort()
        small = socket.socket()
        small.setblocking(False)
        if tried.ask.pause:
            small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BUFFER)
        try:
            await asyncio.get_running_loop().sock_connect(small, (HOST, router.port))
        except OSError:
            small.close()
            raise
        reader, writer = await asyncio.open_connection(sock=small, limit=_SMALL_BUFFER)
        return _Connection(router, len(router.logs), reader, writer)


class _Client:
    """Reads one answer; the methods named on_… are httptools'."""

    def __init__(self, tried: Try, connection: _Connection) -> None:
        self._tried, self._connection = tried, connection
        self._parser: Any = httptools.HttpResponseParser(self)
        self._complete = False

    async def run(self) -> None:
        """Send the request and read what comes."""
        tried, ask = self._tried, self._tried.ask
        self._connection.writer.write(_request(tried))
        reading = asyncio.ensure_future(self._read())
        done, _ = await asyncio.wait([reading], timeout=ask.leaves_after)
        if not done:
            tried.end = End.LEFT
            tried.ended = monotonic()
            self._connection.writer.transport.abort()
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            return
        await reading

    async def _read(self) -> None:
        tried, ask = self._tried, self._tried.ask
        pause = ask.pause
        while not self._complete:
            try:
                data = await self._connection.reader.read(_SMALL_BUFFER)
            except ConnectionError:
                data = b""
            if not data:
                tried.end = End.CUT if tried.status else End.UNANSWERED
                return
            self._parser.feed_data(data)
            if tried.body and pause:
                await asyncio.sleep(pause)
                pause = 0.0
            if ask.leaves_at_event is not None and tried.body.count(b"\n\n") >= ask.leaves_at_event:
                tried.end = End.LEFT
                return
        tried.end = End.COMPLETE

    def on_header(self, name: bytes, value: bytes) -> None:
        self._tried.headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        self._tried.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self._tried.body += data

    def on_message_complete(self) -> None:
        self._complete = True


def body_of(ask: Ask) -> dict[str, Any]:
    """The request's JSON."""
    # The id first, so that no two prompts begin alike.
    prompt = " ".join([ask.id, *(f"w{number % 97}" for number in range(ask.words))])
    body: dict[str, Any] = {"model": ask.model, "max_tokens": ask.tokens, "seed": 1}
    body |= {"messages": [{"role": "user", "content": prompt}]} if ask.chat else {"prompt": prompt, "echo": True}
    if ask.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body if ask.ends_by_itself else body | {"ignore_eos": True}


def _request(tried: Try) -> bytes:
    ask = tried.ask
    body = json.dumps(body_of(ask)).encode()
    lines = [
        f"POST /v1/{'chat/' if ask.chat else ''}completions HTTP/1.1",
        f"host: {tried.router}",
        "content-type: application/json",
        f"authorization: Bearer {key_of(ask.caller)}",
        f"x-request-id: {tried.id}",
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
