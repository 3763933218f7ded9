"""How much memory a router takes for many open streams, and for a client that stops reading."""

import asyncio
import json
import socket
import time
from typing import Any

import uvloop
from kernel_accounting import memory_mb
from routers import Running

OPEN_STREAMS = 1000
STOPPED_SECONDS = 4.0
_LONG_TOKENS = 250_000
"""Of the stream whose reader stops: about 60 MB."""


def _request(tokens: int, pause: int | None) -> bytes:
    document: dict[str, Any] = {"model": "tiny", "max_tokens": tokens, "stream": True}
    if pause is not None:
        document["seed"] = pause
    document["messages"] = [{"role": "user", "content": "word " * 100}]
    body = json.dumps(document).encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    )
    return head % len(body) + body


def with_open_streams(router: Running) -> float:
    """Megabytes while OPEN_STREAMS streams are open, each with a token every second."""

    async def one() -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
        writer.write(_request(60, 1000))
        if b"data:" not in await reader.readuntil(b"data:"):
            raise SystemExit("a stream did not begin")
        return writer

    async def all_of_them() -> float:
        writers = [await one() for _ in range(OPEN_STREAMS)]
        megabytes = memory_mb(router.pid)
        for writer in writers:
            writer.transport.abort()
        return megabytes

    return uvloop.run(all_of_them())


def growth_for_stopped_reader(router: Running) -> float:
    """Megabytes that are added when one client asks for a long stream and does not read it."""
    before = memory_mb(router.pid)
    with socket.create_connection(("127.0.0.1", router.port)) as client:
        client.sendall(_request(_LONG_TOKENS, None))
        time.sleep(STOPPED_SECONDS)
        growth = memory_mb(router.pid) - before
        received = 0
        client.settimeout(60)
        tail = b""
        while not tail.endswith(b"0\r\n\r\n"):
            data = client.recv(1 << 20)
            if not data:
                raise SystemExit("the stream whose reader had stopped was cut")
            received += len(data)
            tail = (tail + data[-16:])[-16:]
    if received < _LONG_TOKENS * 100:
        raise SystemExit(f"the stream whose reader had stopped has only {received} bytes")
    return growth
