"""What the head of an engine's response says, and the reading of heads that look as they nearly always do. Pure."""

from typing import Final

from workslice_router.forwarded_headers import NO_BODY, RESPONSE_LINES, Headers, client_response_lines
from workslice_router.whole_answer import is_json

_USUAL_START: Final = b"HTTP/1.1 200 "
_OK: Final = 200
_EVENT_STREAM: Final = b"text/event-stream"
_LARGEST: Final = 8192


class ResponseHead:
    """The head of a final response."""

    __slots__ = ("chunked", "headers", "is_event_stream", "is_json", "length", "lines", "status")

    def __init__(
        self, status: int, headers: Headers, kind: bytes | None, length: int | None, chunked: bool, lines: bytes | None
    ) -> None:
        self.status = status
        self.headers = headers
        self.length = length
        """Bytes of the body; None: the end says where it ends."""
        self.chunked = chunked
        self.lines = lines
        """What the client gets of it; None: not yet known."""
        self.is_event_stream = kind is not None and kind.lower().startswith(_EVENT_STREAM)
        self.is_json = is_json(kind) and status not in NO_BODY

    def client_lines(self) -> bytes:
        """The header lines that the client gets. They are asked for once: a stream need not keep them for minutes."""
        lines = client_response_lines(self.headers) if self.lines is None else self.lines
        self.headers.clear()
        self.lines = b""
        return lines


def response_head(status: int, headers: Headers) -> ResponseHead:
    """A head that a parser of HTTP has read."""
    kind = length = None
    chunked = False
    for name, value in headers:
        if name == b"content-type" and kind is None:
            kind = value
        elif name == b"content-length" and length is None:
            length = int(value)
        elif name == b"transfer-encoding":
            chunked = True
    return ResponseHead(status, headers, kind, length, chunked, None)


def usual_head(data: bytes, end: int) -> ResponseHead | None:
    """The head that `data` begins with, up to the empty line at `end`, of an answer with a length or in chunks; None when anything
    about it is unusual.
    """
    if not 0 < end <= _LARGEST or not data.startswith(_USUAL_START):
        return None
    headers: Headers = []
    passed: list[bytes] = []
    kind = length = None
    chunked = False
    lines = data[:end].split(b"\r\n")
    for number in range(1, len(lines)):
        read = RESPONSE_LINES.read(lines[number])
        if read is None:
            return None
        headers.append(read.header)
        if read.passed:
            passed.append(read.passed)
            if read.name == b"content-type" and kind is None:
                kind = read.header[1]
        elif read.length >= 0:
            if length is not None:
                return None
            length = read.length
        elif read.chunked:
            if chunked:
                return None
            chunked = True
    if chunked == (length is not None):
        return None
    return ResponseHead(_OK, headers, kind, length, chunked, b"".join(passed))
