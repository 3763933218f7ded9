"""Frames one response to a client whose body comes in pieces: chunks, a known length, or until the connection closes."""

from typing import TYPE_CHECKING, Final

from workslice_router.forwarded_headers import NO_BODY, connection_line, status_line
from workslice_router.incoming_request import IncomingRequest
from workslice_router.whole_chunks import chunk

if TYPE_CHECKING:
    from workslice_router.client_connection import ClientConnection


_COMMENT: Final = b": keep-alive\n\n"
_OK: Final = 200
_OWN: Final = b"x-workslice-"


class ClientResponse:
    """Nothing of an answer goes out before its first piece: until then another replica may still give it."""

    __slots__ = ("_chunked", "_client", "_keep_alive", "_request", "begun", "committed")

    def __init__(self, client: "ClientConnection", request: IncomingRequest) -> None:
        self.begun = False
        """The client has seen a part of an answer: no other answer is possible any more."""
        self.committed = False
        """The client has seen the status 200 of a stream of events: errors have to be events, too."""
        self._client = client
        self._request = request
        self._chunked = False
        self._keep_alive = False

    def begin(self, status: int, lines: bytes, length: int | None, first: bytes) -> None:
        """Send the head, with these header lines, and the first piece in one write. Where the head is out already, comments say what it
        could not know.
        """
        self.begun = True
        if self.committed:
            late = [b": %b\n" % line for line in lines.split(b"\r\n") if line.startswith(_OWN)]
            self.write(b"".join((*late, b"\n", first)))
            return
        request = self._request
        self._keep_alive = self._client.stays_open(request)
        framing = b""
        if status in NO_BODY:
            first = b""
        elif length is not None:
            framing = b"content-length: %d\r\n" % length
        elif request.version == "1.1":
            self._chunked = True
            framing = b"transfer-encoding: chunked\r\n"
            first = self._framed(first)
        else:
            self._keep_alive = False
        connection = connection_line(request.version, keep_alive=self._keep_alive)
        self._client.write(b"%b%b%b%b\r\n%b" % (status_line(status), lines, framing, connection, first))

    def keep_alive(self, lines: bytes) -> None:
        """Send a comment that a client of events passes over; the first one sends the head before it, with these header lines."""
        if self.committed:
            self.write(_COMMENT)
            return
        self.begin(_OK, b"content-type: text/event-stream; charset=utf-8\r\n" + lines, None, _COMMENT)
        self.begun, self.committed = False, True

    def write(self, data: bytes) -> None:
        """Send a further piece."""
        if data:
            self._client.write(self._framed(data))

    def end(self) -> None:
        """The response is complete."""
        if self._chunked:
            self._client.write(b"0\r\n\r\n")
        self._client.finished(keep_alive=self._keep_alive)

    def cut(self, last: bytes = b"") -> None:
        """End an incomplete response, after the piece `last`, so that the client can tell: without the end that its framing needs."""
        self.write(last)
        self._client.close_after_flush()

    def _framed(self, data: bytes) -> bytes:
        if self._chunked:
            return chunk(data) if data else b""
        return data
