"""Which headers pass between client and engine, and which the router keeps, drops or writes itself."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

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
_SANE_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:\-]{1,128}\Z")

REASON_PHRASES: Final = {status.value: status.phrase.encode() for status in HTTPStatus}


def sane_request_id(value: bytes | None) -> bytes | None:
    """The client's request id when it is safe to repeat in headers and logs, else None."""
    return value if value is not None and _SANE_REQUEST_ID.match(value) else None


def engine_request_head(path: str, host: str, headers: Headers, request_id: bytes, length: int) -> bytes:
    """Head of the request to an engine: the router's own path and host, the client's end-to-end headers, exact length."""
    named = _named_by_connection(headers)
    lines = [
        b"POST %s HTTP/1.1\r\nhost: %s\r\nx-request-id: %s\r\ncontent-length: %d\r\n"
        % (path.encode(), host.encode(), request_id, length)
    ]
    lines += [
        b"%s: %s\r\n" % (name, value)
        for name, value in headers
        if name not in _NOT_TO_ENGINES and not name.startswith(_OWN_PREFIXES) and name not in named
    ]
    lines.append(b"\r\n")
    return b"".join(lines)


def client_response_headers(headers: Headers) -> Headers:
    """End-to-end headers of an engine's response."""
    named = _named_by_connection(headers)
    return [
        (name, value)
        for name, value in headers
        if name not in _NOT_TO_CLIENTS and not name.startswith(_OWN_PREFIXES) and name not in named
    ]


def response_head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Status line and headers of a response to a client, with the empty line that ends them."""
    lines = [b"HTTP/1.1 %d %s\r\n" % (status, REASON_PHRASES.get(status, b"Unknown"))]
    lines += [b"%s: %s\r\n" % header for header in headers]
    lines.append(b"\r\n")
    return b"".join(lines)


def connection_header(version: str, *, keep_alive: bool) -> Headers:
    """The Connection header of a response, where the client's HTTP version does not already imply it."""
    if not keep_alive:
        return [(b"connection", b"close")]
    return [(b"connection", b"keep-alive")] if version == "1.0" else []


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    """Headers that a Connection header declares to be for this hop only (RFC 9110, 7.6.1)."""
    named: set[bytes] = set()
    for name, value in headers:
        if name == b"connection":
            named.update(part.strip().lower() for part in value.split(b","))
    return frozenset(named)
