"""Counts HTTP requests under the names of the library that vLLM counts them with."""

import time
from typing import Final

from prometheus_client import Counter, Histogram, Summary
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NOT_COUNTED: Final = frozenset(("/metrics", "/health", "/load", "/ping", "/version", "/server_info"))
_FINE: Final = (*(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60),)


class CountRequests:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp, routes: list[Route]) -> None:
        self._app, self._routes = app, routes
        self._total = Counter("http_requests_total", "HTTP requests.", ("method", "status", "handler"))
        self._incoming = Summary("http_request_size_bytes", "Size of HTTP requests.", ("handler",))
        self._outgoing = Summary("http_response_size_bytes", "Size of HTTP responses.", ("handler",))
        self._fine = Histogram("http_request_duration_highr_seconds", "Time of HTTP requests.", buckets=_FINE)
        self._coarse = Histogram(
            "http_request_duration_seconds", "Time of HTTP requests.", ("method", "handler"), buckets=(0.1, 0.5, 1)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        handler = self._handler(scope)
        if handler in _NOT_COUNTED:
            await self._app(scope, receive, send)
            return
        began, status, size = time.monotonic(), 500, 0

        async def watch(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status, size = message["status"], _length(message["headers"])
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            took = time.monotonic() - began
            self._total.labels(scope["method"], f"{status // 100}xx", handler).inc()
            self._incoming.labels(handler).observe(_length(scope["headers"]))
            self._outgoing.labels(handler).observe(size)
            self._fine.observe(took)
            self._coarse.labels(scope["method"], handler).observe(took)

    def _handler(self, scope: Scope) -> str:
        for route in self._routes:
            if route.matches(scope)[0] is not Match.NONE:
                return route.path
        return "none"


def _length(headers: list[tuple[bytes, bytes]]) -> int:
    return next((int(value) for name, value in headers if name == b"content-length" and value.isdigit()), 0)
