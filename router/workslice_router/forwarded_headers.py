"""Which headers pass between client and engine, and which the router keeps, drops or writes itself."""

import re
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from workslice_router.header_line import HeaderLines

Headers = list[tuple[bytes, bytes]]
"""Names in lower case, values as received, in order."""
NO_BODY: Final = frozenset({204, 304})
"""Statuses of responses that have no body, and so no length either."""

_HOP_BY_HOP: Final = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
        b"content-length",
    )
)
# Besides the hop-by-hop ones: the caller's key stays here; an engine that compressed could not be read for errors; and some
# headers steer vLLM itself (rank, priority, load report), which is the router's business.
_NOT_TO_ENGINES: Final = _HOP_BY_HOP | {
    b"host",
    b"expect",
    b"authorization",
    b"x-api-key",
    b"api-key",
    b"accept-encoding",
    b"x-request-id",
    b"x-data-parallel-rank",
    b"endpoint-load-metrics-format",
}
_NOT_TO_CLIENTS: Final = _HOP_BY_HOP | {b"x-request-id", b"alt-svc"}
_OWN_PREFIXES: Final = (b"x-workslice-", b"x-vllm-")
REQUEST_LINES: Final = HeaderLines(_NOT_TO_ENGINES, _OWN_PREFIXES)
"""Of clients, as engines get them."""
RESPONSE_LINES: Final = HeaderLines(_NOT_TO_CLIENTS, _OWN_PREFIXES)
"""Of engines, as clients get them."""
_SANE_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:\-]{1,128}\Z")

_STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


def sane_request_id(value: bytes | None) -> bytes | None:
    """The client's request id when it is safe to repeat in headers and logs, else None."""
    return value if value is not None and _SANE_REQUEST_ID.match(value) else None


def engine_request_head(path: str, host: str, port: int, lines: bytes, request_id: bytes, length: int) -> bytes:
    """Head of the request to an engine: the router's own path and host, the client's end-to-end header lines, exact length."""
    start = _request_start(path, host, port)
    return b"%b%b\r\ncontent-length: %d\r\n%b\r\n" % (start, request_id, length, lines)


@lru_cache(maxsize=4096)
def _request_start(path: str, host: str, port: int) -> bytes:
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"POST {path} HTTP/1.1\r\nhost: {authority}\r\nx-request-id: ".encode()


def engine_request_lines(headers: Headers) -> bytes:
    """End-to-end headers of a client's request."""
    return b"".join(_end_to_end_lines(headers, _NOT_TO_ENGINES))


def client_response_lines(headers: Headers) -> bytes:
    """End-to-end headers of an engine's response."""
    return b"".join(_end_to_end_lines(headers, _NOT_TO_CLIENTS))


def _end_to_end_lines(headers: Headers, dropped: frozenset[bytes]) -> list[bytes]:
    """Pieces of lines."""
    lines: list[bytes] = []
    for header in headers:
        name = header[0]
        if name in dropped:
            if name == b"connection":
                return _lines_not_named(headers, dropped)
        elif not name.startswith(_OWN_PREFIXES):
            lines += (name, b": ", header[1], b"\r\n")  # four small pieces are joined faster than one is formatted
    return lines


def _lines_not_named(headers: Headers, dropped: frozenset[bytes]) -> list[bytes]:
    """The same for a message whose Connection header declares some headers to be for this hop only (RFC 9110, 7.6.1)."""
    named: set[bytes] = set()
    for name, value in headers:
        if name == b"connection":
            named.update(part.strip().lower() for part in value.split(b","))
    kept = [header for header in headers if header[0] not in named and header[0] != b"connection"]
    return _end_to_end_lines(kept, dropped)


def own_lines(request_id: bytes) -> bytes:
    """What the router adds to every answer."""
    return b"x-request-id: %b\r\n" % request_id


def own_lines_of_place(
    request_id: bytes, class_name: str, pool: str, replica: str, context_tokens: int, queued_seconds: float
) -> bytes:
    """What it adds once the request has a place: where it went and how long it waited."""
    place = _place_lines(class_name, pool, replica, context_tokens)
    return b"x-request-id: %b\r\n%bx-workslice-queue-ms: %d\r\n" % (request_id, place, int(queued_seconds * 1000))


@lru_cache(maxsize=4096)
def _place_lines(class_name: str, pool: str, replica: str, context_tokens: int) -> bytes:
    return (
        f"x-workslice-class: {class_name}\r\nx-workslice-pool: {pool}\r\nx-workslice-replica: {replica}\r\n"
        f"x-workslice-context-limit: {context_tokens}\r\n"
    ).encode()


def header_lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Headers as they are sent."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def status_line(status: int) -> bytes:
    """First line of a response."""
    return _STATUS_LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status


def connection_line(version: str, *, keep_alive: bool) -> bytes:
    """The Connection header of a response, where the client's HTTP version does not already imply it."""
    if not keep_alive:
        return b"connection: close\r\n"
    return b"connection: keep-alive\r\n" if version == "1.0" else b""
