"""One request as a client sent it, and what its head alone decides."""

from typing import Final

from workslice_router.api_keys import ApiKeys
from workslice_router.endpoints import Endpoint, find_endpoint
from workslice_router.forwarded_headers import Headers, engine_request_lines
from workslice_router.json_structure import PartsCount
from workslice_router.openai_errors import Reason, Refusal, Refused, refusal
from workslice_router.settings import MAX_HEAD_BYTES, MAX_HEADERS

_SUPPORTED_VERSIONS: Final = ("1.1", "1.0")
_SELDOM_SENT: Final = frozenset((b"transfer-encoding", b"content-encoding", b"expect"))


class IncomingRequest:
    """Filled as its bytes arrive."""

    __slots__ = (
        "body_bytes",
        "body_parts",
        "by_name",
        "caller",
        "endpoint",
        "headers",
        "keep_alive",
        "method",
        "parts_count",
        "passed_lines",
        "received_at",
        "refusal",
        "target",
        "version",
    )

    def __init__(self, received_at: float = 0.0) -> None:
        self.received_at = received_at
        self.method = b""
        self.target = b""
        self.version = "1.1"
        self.headers: Headers = []
        self.body_parts: list[bytes] = []
        self.body_bytes = 0
        self.parts_count: PartsCount | None = None
        """Of the body's JSON, once it is large."""
        self.keep_alive = False
        self.endpoint: Endpoint | None = None
        self.caller = ""
        """Name of the API key used; empty when none are configured."""
        self.refusal: Refusal | None = None
        """Set when the request is refused already; the rest of its body is then read and dropped."""
        self.by_name: dict[bytes, bytes] = {}
        """The first header of each name."""
        self.passed_lines = b""
        """What an engine gets of the headers."""

    def index_headers(self) -> None:
        """The headers are complete: make what is asked of them."""
        self.by_name = dict(reversed(self.headers))
        self.passed_lines = engine_request_lines(self.headers)

    def forget_headers(self) -> None:
        """Nobody asks for them any more: a stream that goes on for minutes need not keep them."""
        self.headers.clear()
        self.by_name.clear()
        self.passed_lines = b""

    def header(self, name: bytes) -> bytes | None:
        """The first header of this lower-case name."""
        return self.by_name.get(name)

    def repeats(self, name: bytes) -> bool:
        """Whether more than one header has this lower-case name."""
        return len(self.by_name) < len(self.headers) and sum(key == name for key, _ in self.headers) > 1

    @property
    def head_bytes(self) -> int:
        """Size of target and headers."""
        return len(self.target) + sum(len(name) + len(value) for name, value in self.headers)

    @property
    def body(self) -> bytes:
        """The whole body."""
        return self.body_parts[0] if len(self.body_parts) == 1 else b"".join(self.body_parts)

    @property
    def expects_continue(self) -> bool:
        """The client waits for `100 Continue` before it sends the body."""
        expect = self.by_name.get(b"expect")
        return expect is not None and self.version == "1.1" and expect.strip().lower() == b"100-continue"

    @property
    def declared_body_bytes(self) -> int | None:
        """Bytes of body that will come, None when they come in chunks."""
        if self.header(b"transfer-encoding") is not None:
            return None
        return int(self.header(b"content-length") or 0)


def check_head(request: IncomingRequest, keys: ApiKeys, max_body_bytes: int, bytes_read: int) -> None:
    """Set the endpoint and the caller, or raise Refused: before the body is read, so that a stranger's body costs nothing.

    The head came in `bytes_read`, perhaps with a part of its body.
    """
    if request.version not in _SUPPORTED_VERSIONS:
        raise Refused(refusal(Reason.HTTP_VERSION))
    too_large = bytes_read > MAX_HEAD_BYTES and request.head_bytes > MAX_HEAD_BYTES
    if too_large or len(request.headers) > MAX_HEADERS:
        raise Refused(refusal(Reason.HEADERS_TOO_LARGE, limit=MAX_HEAD_BYTES))
    first = request.by_name
    seldom_sent = not _SELDOM_SENT.isdisjoint(first)
    if seldom_sent:
        _check_framing(request)
    request.endpoint = find_endpoint(request.method, request.target)
    request.caller = keys.authenticate(first.get(b"authorization"))
    if seldom_sent:
        _check_encoding_and_expectation(request)
    if int(first.get(b"content-length") or 0) > max_body_bytes:
        raise Refused(refusal(Reason.BODY_TOO_LARGE, limit=max_body_bytes))
    if request.repeats(b"host") or (request.version == "1.1" and b"host" not in first):
        raise Refused(refusal(Reason.MALFORMED_REQUEST, detail="a request has one Host header"))


def _check_framing(request: IncomingRequest) -> None:
    codings = [value.strip().lower() for name, value in request.headers if name == b"transfer-encoding"]
    # Anything but plain chunks is a way to make two servers disagree about where a request ends.
    if codings and (codings != [b"chunked"] or request.version == "1.0"):
        raise Refused(refusal(Reason.MALFORMED_REQUEST, detail="the only Transfer-Encoding is chunked, with HTTP/1.1"))


def _check_encoding_and_expectation(request: IncomingRequest) -> None:
    encoding = request.header(b"content-encoding")
    if encoding is not None and encoding.strip().lower() != b"identity":
        shown = encoding[:40].decode("ascii", "backslashreplace")
        raise Refused(refusal(Reason.UNSUPPORTED_ENCODING, encoding=shown))
    expect = request.header(b"expect")
    if expect is not None and expect.strip().lower() != b"100-continue":
        raise Refused(refusal(Reason.EXPECTATION_FAILED))
