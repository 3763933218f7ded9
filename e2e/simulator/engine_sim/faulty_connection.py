"""Connections that break on purpose: answers are cut, go out in crumbs, or have a wrong length."""

import asyncio
import re
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from engine_sim.faults import Faults

_PAUSE_SECONDS: Final = 0.002
"""Between the crumbs of an answer: long enough that they arrive one by one."""
_LENGTH: Final = re.compile(rb"(?<=\r\ncontent-length: )\d+(?=\r\n)")
_END_OF_HEAD: Final = b"\r\n\r\n"


class FaultyTransport:
    """A transport that does what the faults say to the answers of POST requests, and nothing to others."""

    def __init__(self, transport: asyncio.Transport, faults: Callable[[], Faults], is_post: Callable[[], bool]) -> None:
        self._transport, self._faults, self._is_post = transport, faults, is_post
        self._waiting: deque[bytes | None] = deque()  # None: close
        self._sent_body = 0
        self._cut = False
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send, in the way of the faults."""
        faults = self._faults()
        if self._cut:
            return
        if not self._is_post():
            self._transport.write(data)
            return
        if data.startswith(b"HTTP/1.1 "):
            self._sent_body = 0
            data = _lengthened(data, faults.content_length_off_by)
        if faults.reset_after is not None:
            data = self._until_reset(data, faults.reset_after)
        size = faults.split_writes or len(data)
        self._waiting.extend(data[start : start + size] for start in range(0, len(data), size or 1))
        if faults.split_writes is None:
            self._send_all()
        else:
            self._send_crumb()

    def close(self) -> None:
        """Close once everything is sent."""
        if self._waiting:
            self._waiting.append(None)
        else:
            self._transport.close()

    def is_closing(self) -> bool:
        """Whether it is closed or will be."""
        return None in self._waiting or self._transport.is_closing()

    def _until_reset(self, data: bytes, limit: int) -> bytes:
        """What of the data may still go out; plans the reset when that is not all."""
        head, end, body = data.partition(_END_OF_HEAD) if data.startswith(b"HTTP/1.1 ") else (b"", b"", data)
        allowed = body[: max(0, limit - self._sent_body)]
        self._sent_body += len(body)
        if self._sent_body >= limit and body:
            self._cut = True
            self._loop.call_later(_PAUSE_SECONDS * 5, self._reset)
        return head + end + allowed

    def _reset(self) -> None:
        connection = self._transport.get_extra_info("socket")
        if connection is not None and not self._transport.is_closing():
            # No lingering: the other side sees a reset instead of an end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def _send_all(self) -> None:
        while self._waiting:
            self._send_one()

    def _send_crumb(self) -> None:
        if self._waiting:
            self._send_one()
            self._loop.call_later(_PAUSE_SECONDS, self._send_crumb)

    def _send_one(self) -> None:
        data = self._waiting.popleft()
        if data is None:
            self._transport.close()
        elif not self._transport.is_closing():
            self._transport.write(data)


def protocol(faults: Callable[[], Faults]) -> type[HttpToolsProtocol]:
    """The server's protocol class over such transports."""

    class FaultyProtocol(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            def is_post() -> bool:
                return bool(self.scope) and self.scope["method"] == "POST"

            super().connection_made(cast(asyncio.Transport, FaultyTransport(transport, faults, is_post)))

    return FaultyProtocol


def _lengthened(data: bytes, by: int) -> bytes:
    head, end, body = data.partition(_END_OF_HEAD)
    return _LENGTH.sub(lambda found: str(max(0, int(found[0]) + by)).encode(), head) + end + body if by else data
