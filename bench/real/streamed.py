"""One streamed answer over a connection of its own, timed; a stream that is not whole counts as a failure."""

import asyncio
import json
import socket
from dataclasses import dataclass
from typing import Any, cast

import httptools

PATIENCE = 180.0
"""Seconds for a whole answer."""


@dataclass
class Answer:
    """What came back; times are those of the event loop's clock."""

    first: float = 0.0
    finished: float = 0.0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    replica: str = ""
    failure: str = ""


def question(model: str, prompt: str, tokens: int) -> bytes:
    """The body of a request whose answer has exactly that many tokens."""
    document = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(document).encode()


async def ask(host: str, port: int, body: bytes) -> Answer:
    """Ask for a chat completion; never raises for what the other side does: `failure` says it."""
    loop = asyncio.get_running_loop()
    try:
        transport, exchange = await loop.create_connection(lambda: _Exchange(host, body), host, port)
    except OSError as error:
        return Answer(failure=f"no connection: {error}")
    try:
        await asyncio.wait_for(exchange.over, PATIENCE)
    except TimeoutError:
        exchange.answer.failure = f"not whole after {PATIENCE:g} s"
    finally:
        transport.close()
    return exchange.answer


class _Exchange(asyncio.Protocol):
    def __init__(self, host: str, body: bytes) -> None:
        self.answer = Answer(failure="the connection ended before the answer")
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        self._wire = f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
        self._parser: Any = httptools.HttpResponseParser(self)
        self._rest = b""
        self._whole = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        cast(asyncio.Transport, transport).write(self._wire)

    def data_received(self, data: bytes) -> None:
        if not self.over.done():
            self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"x-workslice-replica":
            self.answer.replica = value.decode()

    def on_body(self, data: bytes) -> None:
        now = self._loop.time()
        if self._parser.get_status_code() != 200:
            self._rest += data
            return
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            self._event(event, now)

    def _event(self, event: bytes, now: float) -> None:
        if not event.startswith(b"data: "):  # a comment that keeps the connection alive
            return
        if event == b"data: [DONE]":
            self._whole = True
            return
        chunk = json.loads(event[6:])
        if "error" in chunk:
            self.answer.failure = f"error event: {chunk['error']}"
            self._end()
            return
        if chunk.get("usage"):
            self.answer.prompt_tokens = chunk["usage"]["prompt_tokens"]
            self.answer.answer_tokens = chunk["usage"]["completion_tokens"]
        # The opening event of a chat has a role and no token; the one with the usage has no choice.
        if not self.answer.first and any("role" not in choice["delta"] for choice in chunk["choices"]):
            self.answer.first = now

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status != 200:
            self.answer.failure = f"status {status}: {self._rest.decode(errors='replace')[:300]}"
        elif self._whole and self.answer.first:
            self.answer.failure = ""
            self.answer.finished = self._loop.time()
        self._end()

    def _end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)
