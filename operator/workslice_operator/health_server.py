"""A tiny HTTP server for /healthz, /readyz and /metrics."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_READ_TIMEOUT = 5.0
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

Check = Callable[[], str | None]
"""What is wrong, or None when all is well."""


@contextlib.asynccontextmanager
async def health_server(port: int, healthy: Check, ready: Check, metrics: Callable[[], bytes]) -> AsyncIterator[int]:
    """Serve while the context lasts, on all addresses; gives the port (of use when `port` is 0)."""

    def answer(method: str, path: str) -> tuple[int, str, bytes]:
        plain = "text/plain; charset=utf-8"
        if method not in ("GET", "HEAD"):
            return 405, plain, b"only GET\n"
        if path == "/metrics":
            return 200, METRICS_TYPE, metrics()
        if path in ("/healthz", "/readyz"):
            wrong = healthy() if path == "/healthz" else ready()
            return (200, plain, b"ok\n") if wrong is None else (503, plain, f"{wrong}\n".encode())
        return 404, plain, b"try /healthz, /readyz or /metrics\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_READ_TIMEOUT):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            words = head.split("\r\n", 1)[0].split(" ")
            status, type_, body = (
                answer(words[0], words[1].split("?")[0]) if len(words) == 3 else (400, "text/plain", b"bad request\n")
            )
            length = f"Content-Type: {type_}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(f"HTTP/1.1 {status} {_REASONS[status]}\r\n{length}".encode())
            if words[0] != "HEAD":
                writer.write(body)
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that went away or never spoke
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host=None, port=port)
    try:
        # With port 0 every address family gets a port of its own; IPv4's is the one to tell.
        ports = {one.family: one.getsockname()[1] for one in server.sockets}
        yield ports.get(socket.AF_INET) or next(iter(ports.values()))
    finally:
        server.close()
