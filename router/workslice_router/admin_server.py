"""The admin port: /metrics, /healthz, /readyz, /state and /asked-in-vain.

A small HTTP server of its own, so that probes never wait behind requests.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from workslice_router.metrics import Metrics
from workslice_router.routing_table import RoutingTable
from workslice_router.state_document import StateDocument

_LONGEST_HEAD: Final = 8192
_HEAD_SECONDS: Final = 10.0
_LONGEST_HOLD: Final = 30.0
"""Seconds that an answer may be held back at most."""
_STATUS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}
_TEXT: Final = "text/plain; charset=utf-8"
_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Lifecycle:
    """Where the router stands in its life."""

    shutting_down: bool = False
    """It finishes what it has and wants no more."""


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    type: str = _TEXT


class _Admin:
    def __init__(
        self, table: RoutingTable, metrics: Metrics, lifecycle: Lifecycle, name: str, clock: Callable[[], float]
    ) -> None:
        self._table = table
        self._metrics = metrics
        self._lifecycle = lifecycle
        self._clock = clock
        self._state = StateDocument(table, name)
        self._state_turn = asyncio.Lock()
        self._asked_in_vain = asyncio.Event()
        table.on_asked_in_vain = self._asked_in_vain.set

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: a request and its answer at a time."""
        # Cancelled is what is open when the router ends; asyncio of Python 3.11 would log that as a fault.
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                while await self._serve_one(reader, writer):
                    pass
            finally:
                writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            async with asyncio.timeout(_HEAD_SECONDS * 6):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            writer.write(_framed(_Answer(400, b"the request's head is too large\n"), False, True))
            return False
        line, _, headers = head.partition(b"\r\n")
        parts = line.split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
            writer.write(_framed(_Answer(400, b"not HTTP/1\n"), False, True))
            return False
        method, (target, _, query) = parts[0], parts[1].partition(b"?")
        lowered = headers.lower()
        keep = parts[2] == b"HTTP/1.1" and b"connection: close" not in lowered
        if method not in (b"GET", b"HEAD"):
            answer, keep = _Answer(405, b"use GET\n"), False  # an unread body would be taken for the next request
        else:
            answer = await self._answer(target, query)
        keep = keep and b"content-length:" not in lowered and b"transfer-encoding:" not in lowered
        writer.write(_framed(answer, keep, method != b"HEAD"))
        await writer.drain()
        return keep

    async def _answer(self, target: bytes, query: bytes) -> _Answer:
        match target:
            case b"/healthz":
                return _Answer(200, b"ok\n")
            case b"/readyz":
                return self._readiness()
            case b"/state":
                async with self._state_turn:
                    for _ in self._state.refresh(self._clock()):
                        await asyncio.sleep(0)
                    return _Answer(200, self._state.render(), "application/json")
            case b"/metrics":
                self._metrics.tasks = len(asyncio.all_tasks())
                pieces = []
                for piece in self._metrics.render(self._table, self._clock()):
                    pieces.append(piece)
                    await asyncio.sleep(0)
                return _Answer(200, "".join(pieces).encode(), _METRICS_TYPE)
            case b"/asked-in-vain":
                try:
                    given = parse_qs(query.decode())
                    after, seconds = int(given["after"][0]), float(given["seconds"][0])
                except (KeyError, ValueError):
                    return _Answer(400, b"give after=N and seconds=S\n")
                return await self._changed_count(after, max(0.0, min(seconds, _LONGEST_HOLD)))
            case _:
                return _Answer(404, b"there are /metrics, /healthz, /readyz, /state and /asked-in-vain\n")

    async def _changed_count(self, known: int, seconds: float) -> _Answer:
        """Hold the answer back until the count is another one than `known`, at most so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._table.asked_in_vain == known:
                    self._asked_in_vain.clear()
                    await self._asked_in_vain.wait()
        return _Answer(200, b"%d\n" % self._table.asked_in_vain)

    def _readiness(self) -> _Answer:
        if self._lifecycle.shutting_down:
            return _Answer(503, b"shutting down\n")
        if not self._table.synced:
            return _Answer(
                503, b"has not seen all pools yet: is the Kubernetes API reachable and are the CRDs installed?\n"
            )
        return _Answer(200, b"ok\n")


async def start_admin_server(
    host: str,
    port: int,
    *,
    name: str,
    table: RoutingTable,
    metrics: Metrics,
    lifecycle: Lifecycle,
    clock: Callable[[], float],
) -> asyncio.Server:
    """Listen; `clock` is the one that admission uses. The server runs until it is closed."""
    admin = _Admin(table, metrics, lifecycle, name, clock)
    return await asyncio.start_server(admin.serve, host, port, limit=_LONGEST_HEAD)


def _framed(answer: _Answer, keep: bool, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {_STATUS[answer.status]}\r\ncontent-type: {answer.type}\r\n"
        f"content-length: {len(answer.body)}\r\nconnection: {'keep-alive' if keep else 'close'}\r\n"
    )
    if answer.status == 405:
        head += "allow: GET, HEAD\r\n"
    return head.encode() + b"\r\n" + (answer.body if with_body else b"")
