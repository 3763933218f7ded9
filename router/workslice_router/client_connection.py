"""The router's side of one client connection: answers its requests in order.

It goes on reading while a request runs, because only a reading socket sees that the client has left; what a pipelining client sends
meanwhile is held, up to a limit.
"""

import asyncio
import socket
from math import inf
from typing import Final, cast

from workslice_router.data_path import DataPath
from workslice_router.endpoints import MODELS
from workslice_router.exchange import Exchange
from workslice_router.forwarded_headers import connection_line, header_lines, own_lines, sane_request_id, status_line
from workslice_router.incoming_request import IncomingRequest
from workslice_router.model_list import model_document, models_document
from workslice_router.openai_errors import Reason, Refusal, Refused, refusal
from workslice_router.request_log import log_refusal
from workslice_router.request_reader import Phase, RequestReader
from workslice_router.settings import MAX_PIPELINED_BYTES

_LINGER_SECONDS: Final = 5.0
_FLUSH_SECONDS: Final = 30.0
_SLOWEST_BODY: Final = 64 * 1024
"""Bytes per second above which a long body earns more time."""


class ClientConnection(asyncio.Protocol):
    """One client; its requests are answered one after the other."""

    def __init__(self, data_path: DataPath) -> None:
        self.data_path = data_path
        self.closed = False
        self.write_paused = False
        self._reader = RequestReader(data_path.keys, data_path.settings.max_body_bytes)
        self._transport: asyncio.Transport | None = None
        self._held: list[bytes] = []  # not yet parsed
        self._held_bytes = 0
        self._reading_paused = False
        self._exchange: Exchange | None = None
        self._answering = False  # inside _answer_ready
        self._closing = False
        self._write_deadline = inf  # for the client to read what is written
        self._last_answer_at = 0.0

    # --- asyncio.Protocol -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class, which is no subclass
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data_path.connections.add(self)
        self.data_path.metrics.connections += 1
        self._last_answer_at = self._now()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, and with it every reason to go on."""
        self.closed = True
        self.data_path.connections.discard(self)
        self.data_path.metrics.connections -= 1
        self._held.clear()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.client_gone()

    def pause_writing(self) -> None:
        """The client reads too slowly: stop reading from the engine."""
        self.write_paused = True
        if not self._closing:
            self._write_deadline = self._now() + self.data_path.settings.idle_timeout
        if self._exchange is not None:
            self._exchange.pause_engine()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.write_paused = False
        if not self._closing:
            self._write_deadline = inf
        if self._exchange is not None:
            self._exchange.resume_engine()
        else:
            self._answer_ready()

    def data_received(self, data: bytes) -> None:
        """Parse, or hold while an earlier request is being answered."""
        reader = self._reader
        if self._exchange is None and not reader.ready:
            reader.feed(data, self._now())
            if reader.phase is Phase.BODY:
                self.data_path.holding.add(self)
            self._answer_ready()
        elif not reader.ended:
            self.data_path.holding.add(self)
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes > MAX_PIPELINED_BYTES:
                self._pause_reading()

    # --- answering --------------------------------------------------------------------------------------------------------

    def _answer_ready(self) -> None:
        if self._answering:
            return
        self._answering = True
        reader = self._reader
        try:
            while self._exchange is None and not (self.write_paused or self.closed or self._closing):
                if reader.ready:
                    self._answer(reader.ready.pop(0))
                elif self._held:
                    data = b"".join(self._held)
                    self._held.clear()
                    self._held_bytes = 0
                    self._resume_reading()
                    reader.feed(data, self._now())
                else:
                    break
        finally:
            self._answering = False
        if reader.continue_due and self._exchange is None:
            reader.continue_due = False
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _answer(self, request: IncomingRequest) -> None:
        endpoint = request.endpoint
        if request.refusal is not None or endpoint is None:
            self.refuse(request, request.refusal or refusal(Reason.INTERNAL_ERROR))
        elif endpoint.reaches_engine:
            self._exchange = Exchange(self.data_path, self, request)
            self._exchange.start()
        else:
            self._answer_models(request, endpoint.model_id)

    def _answer_models(self, request: IncomingRequest, model_id: str) -> None:
        table = self.data_path.table
        try:
            body = model_document(table, model_id) if model_id else models_document(table)
        except Refused as refused:
            self.refuse(request, refused.refusal)
            return
        lines = b"content-type: application/json\r\n" + own_lines(self.request_id(request))
        self.data_path.metrics.request_finished(MODELS.path, "", "", 200, self._now() - request.received_at)
        self.data_path.metrics.caller(request.caller, 200)
        self.respond(request, 200, lines, body)

    def refuse(self, request: IncomingRequest, reason: Refusal) -> None:
        """Answer with an error a request that no engine has, and account for it."""
        request_id = self.request_id(request)
        seconds = self._now() - request.received_at
        log_refusal(request, request_id, reason, seconds)
        metrics = self.data_path.metrics
        metrics.refused(reason.reason)
        metrics.request_finished(request.endpoint.path if request.endpoint else "", "", "", reason.status, seconds)
        metrics.caller(request.caller, reason.status)
        self.respond(request, reason.status, header_lines(reason.headers) + own_lines(request_id), reason.body)

    def request_id(self, request: IncomingRequest) -> bytes:
        """The client's own id if it is sane, else a new one."""
        return sane_request_id(request.header(b"x-request-id")) or self.data_path.new_request_id()

    @property
    def address(self) -> str:
        """The client's IP address, or that of the proxy in front of it."""
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        return str(peer[0]) if peer else ""

    def stays_open(self, request: IncomingRequest) -> bool:
        """Whether the connection may carry another request after this one."""
        return request.keep_alive and not self.data_path.shutting_down

    def respond(self, request: IncomingRequest, status: int, lines: bytes, body: bytes) -> None:
        """Send a whole response with these header lines, and go on with the next request."""
        keep_alive = self.stays_open(request)
        connection = connection_line(request.version, keep_alive=keep_alive)
        head = b"%b%bcontent-length: %d\r\n%b\r\n" % (status_line(status), lines, len(body), connection)
        self.write(head if request.method == b"HEAD" else head + body)
        self.finished(keep_alive=keep_alive)

    def write(self, data: bytes) -> None:
        """Send bytes, unless the client has gone."""
        if self._transport is not None and not self.closed:
            self._transport.write(data)

    def finished(self, *, keep_alive: bool) -> None:
        """The response to the current request is written."""
        self._exchange = None
        self._last_answer_at = self._now()
        reader = self._reader
        if not keep_alive:
            self.close_after_flush()
        elif reader.ready or self._held or reader.continue_due:
            self._answer_ready()

    # --- closing ----------------------------------------------------------------------------------------------------------

    def close_after_flush(self) -> None:
        """Close once everything written has gone out; without its last chunk a response is seen to be incomplete."""
        transport = self._transport
        self._exchange = None
        self._closing = self._reader.ended = True
        if transport is None or transport.is_closing():
            return
        if self._reader.unread and transport.can_write_eof():
            # Closing now would reset the connection and lose the answer, since the client is still sending: read on and drop it.
            self._resume_reading()
            transport.write_eof()
            self._write_deadline = self._now() + _LINGER_SECONDS
        else:
            transport.close()
            self._write_deadline = self._now() + _FLUSH_SECONDS

    def abort(self) -> None:
        """Reset the connection."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def held_bytes(self) -> int:
        """Bytes of requests kept here that no exchange has yet."""
        reader = self._reader
        if self.closed:
            return 0
        held = self._held_bytes + sum(request.body_bytes for request in reader.ready)
        return held + (reader.request.body_bytes if reader.phase is Phase.BODY and not reader.ended else 0)

    @property
    def receiving(self) -> bool:
        """A request is being read, and no other one of this connection is being answered."""
        return self._exchange is None and not self._reader.ready and self._reader.phase is Phase.BODY

    def refuse_body(self, reason: Refusal) -> None:
        """Answer the request that is being read with `reason`."""
        self._reader.refuse_and_end(reason)
        self._answer_ready()

    @property
    def idle(self) -> bool:
        """Nothing is being read or answered."""
        return self._exchange is None and not self._reader.ready and self._reader.phase is Phase.BETWEEN

    def check_deadline(self, now: float) -> None:
        """End the connection, or the request being read, when its time is over."""
        if now >= self._write_deadline:
            self.abort()
            return
        if self._exchange is not None or self._closing or self._reader.ready:
            return
        settings, reader = self.data_path.settings, self._reader
        since = max(self._last_answer_at, reader.request.received_at)
        if reader.phase is Phase.BETWEEN:
            if now >= since + settings.keep_alive_timeout:
                self.close_after_flush()
            return
        seconds = settings.head_timeout
        if reader.phase is Phase.BODY:
            seconds = settings.body_timeout + reader.request.body_bytes / _SLOWEST_BODY
        if now >= since + seconds:
            reader.refuse_and_end(refusal(Reason.REQUEST_TIMEOUT, seconds=round(seconds)))
            self._answer_ready()

    def _pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._reading_paused and self._transport is not None and not self._transport.is_closing():
            self._reading_paused = False
            self._transport.resume_reading()

    def _now(self) -> float:
        return self.data_path.loop.time()
