"""Turns the bytes of a client connection into requests, within limits: framing only, no socket and no clock of its own."""

import logging
from enum import Enum, auto
from typing import Any, Final

import httptools

from workslice_router.api_keys import ApiKeys
from workslice_router.incoming_request import IncomingRequest, check_head
from workslice_router.json_structure import LARGE, PartsCount, too_many_parts
from workslice_router.openai_errors import Reason, Refusal, Refused, refusal
from workslice_router.settings import MAX_HEAD_BYTES
from workslice_router.whole_request import whole_request

log = logging.getLogger("workslice_router.data_path")

_DISCARDED_BODY: Final = 1 << 20
"""A refused request's body up to this size is read and dropped, so that the connection can be used again."""
_MAX_PIPELINED_REQUESTS: Final = 32


class Phase(Enum):
    """Where in a request the next byte belongs."""

    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()


class RequestReader:
    """Feed it bytes; take whole or refused requests, in order, from `ready`."""

    def __init__(self, keys: ApiKeys, max_body_bytes: int) -> None:
        self.ready: list[IncomingRequest] = []  # nearly always of one; an empty deque takes 760 bytes
        self.phase = Phase.BETWEEN
        self.request = IncomingRequest()
        """The one being read."""
        self.ended = False
        """No further request will come: the last one closes the connection, or the framing is lost."""
        self.unread = False
        """The client may still be sending what is now dropped."""
        self.continue_due = False
        """The client waits for `100 Continue`; whoever sends it clears this."""
        self._keys = keys
        self._max_body_bytes = max_body_bytes
        self._parser: Any = None  # made for the first request that needs it
        self._replaying = False
        self._bare_bytes = 0  # read since the last byte of a body or the last end of a request
        self._now = 0.0

    def feed(self, data: bytes, now: float) -> None:
        """Read `data`, which came at `now`."""
        if self.ended:
            return
        self._now = now
        if self.phase is Phase.BETWEEN:
            whole = whole_request(data, now, self._keys, self._max_body_bytes)
            if whole is not None:
                self.request = whole
                self.ready.append(whole)
                return
        self._bare_bytes += len(data)
        try:
            if self._parser is None:
                self._parser = httptools.HttpRequestParser(self)
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserCallbackError:
            log.exception("reading a request failed in the router itself")
            self.refuse_and_end(refusal(Reason.INTERNAL_ERROR))
        except httptools.HttpParserError as error:
            self.refuse_and_end(refusal(Reason.MALFORMED_REQUEST, detail=str(error)))
        if self._bare_bytes > MAX_HEAD_BYTES and self.phase is not Phase.BETWEEN:
            # A head without end, or trailers, or chunk extensions.
            self.refuse_and_end(refusal(Reason.HEADERS_TOO_LARGE, limit=MAX_HEAD_BYTES))

    def refuse_and_end(self, reason: Refusal) -> None:
        """The request being read gets `reason` as its answer, in its turn, and nothing is read after it."""
        if self.ended:
            return
        if self.phase is Phase.BETWEEN:
            self.request = IncomingRequest(received_at=self._now)
        self.request.refusal = reason
        self.request.keep_alive = False
        self.request.body_parts.clear()
        self.ready.append(self.request)
        self.ended = self.unread = True

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Go on after an offer to speak HTTP/2 or WebSocket, which a server may ignore, but at which the parser stops without
        reading the body: a new parser gets the framing of the same request and then the body. (Java's HTTP client offers h2c with
        every first request.)
        """
        if not self.ready or (self.ended and self.unread):
            return
        self.request = self.ready.pop()
        self.ended = False
        self.phase = Phase.BODY
        if self.request.method == b"CONNECT":
            self.refuse_and_end(refusal(Reason.MALFORMED_REQUEST, detail="CONNECT is not supported"))
            return
        framing = [header for header in self.request.headers if header[0] in (b"content-length", b"transfer-encoding")]
        self._parser = httptools.HttpRequestParser(self)
        self._replaying = True
        self._parser.feed_data(
            b"POST / HTTP/1.1\r\n" + b"".join(b"%s: %s\r\n" % header for header in framing) + b"\r\n"
        )
        self._replaying = False
        if rest:
            self.feed(rest, self._now)

    # --- httptools callbacks ----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """First byte of a request."""
        if not (self.ended or self._replaying):
            self.request = IncomingRequest(received_at=self._now)
            self.phase = Phase.HEAD

    def on_url(self, target: bytes) -> None:
        """A piece of the request target."""
        if not self._replaying:
            self.request.target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; those after the body (trailers) are dropped."""
        if self.phase is Phase.HEAD:
            self.request.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is complete: what it alone decides is decided before the body comes."""
        if self.ended or self._replaying:
            return
        request = self.request
        self.phase = Phase.BODY
        request.index_headers()
        request.method = self._parser.get_method()
        request.version = self._parser.get_http_version()
        request.keep_alive = self._parser.should_keep_alive()
        try:
            check_head(request, self._keys, self._max_body_bytes, self._bare_bytes)
        except Refused as refused:
            request.refusal = refused.refusal
            coming = None if refused.refusal.reason is Reason.MALFORMED_REQUEST else request.declared_body_bytes
            if request.expects_continue or coming is None or coming > _DISCARDED_BODY:
                self.refuse_and_end(refused.refusal)
        else:
            self.continue_due = request.expects_continue

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._bare_bytes = 0
        self.continue_due = False
        if self.ended:
            return
        request = self.request
        request.body_bytes += len(data)
        if request.refusal is not None:
            return
        if request.body_bytes > self._max_body_bytes:
            self.refuse_and_end(refusal(Reason.BODY_TOO_LARGE, limit=self._max_body_bytes))
            return
        request.body_parts.append(data)
        if request.body_bytes > LARGE:
            self._count_parts(request, data)

    def _count_parts(self, request: IncomingRequest, data: bytes) -> None:
        """A body becomes large: what would take long at its end is done bit by bit."""
        count, pieces = request.parts_count, [data]
        if count is None:
            count, pieces = PartsCount(), request.body_parts
            request.parts_count = count
        for piece in pieces:
            count.add(piece)
        if count.too_many:
            self.refuse_and_end(too_many_parts())

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._bare_bytes = 0
        if self.ended:
            return
        self.phase = Phase.BETWEEN
        self.continue_due = False
        self.ready.append(self.request)
        if len(self.ready) >= _MAX_PIPELINED_REQUESTS:
            self.request.keep_alive = False
        self.ended = not self.request.keep_alive
