"""How much memory a router takes for many open streams, and for a client that stops reading."""

import asyncio
import json
import socket
import sys
import time
from typing import Any

import uvloop
from kernel_accounting import memory_mb
from routers import Running

OPEN_STREAMS = 1000
STOPPED_SECONDS = 4.0
_AT_ONCE = 100
"""So many streams are opened at a time: what is measured is that they are open, not that they come together."""
_OPEN_SECONDS = 45.0
"""Longest time until all streams have begun; they last for 60 s, so that none ends before the last one is open."""
_DRAIN_SECONDS = 90.0
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


def with_open_streams(name: str, router: Running) -> float:
    """Megabytes while OPEN_STREAMS streams are open, each with a token every second."""
    print(f"memory of {name} with {OPEN_STREAMS:,} open streams", file=sys.stderr, flush=True)

    async def one(turn: asyncio.Semaphore) -> asyncio.StreamWriter:
        async with turn:
            return await opened()

    async def opened() -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
        writer.write(_request(60, 1000))
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200 "):
            said = await reader.read(4096)
            raise SystemExit(
                f"{name} refused one of {OPEN_STREAMS:,} streams:\n{(head + said).decode(errors='replace')}"
            )
        await reader.readuntil(b"data:")
        return writer

    async def all_of_them() -> float:
        turn = asyncio.Semaphore(_AT_ONCE)
        opening = [asyncio.create_task(one(turn)) for _ in range(OPEN_STREAMS)]
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                writers = await asyncio.gather(*opening)
        except TimeoutError:
            begun = sum(task.done() and not task.cancelled() for task in opening)
            raise SystemExit(
                f"{name}: {begun} of {OPEN_STREAMS:,} streams have begun after {_OPEN_SECONDS:g} s; the others wait"
            ) from None
        megabytes = memory_mb(router.pid)
        for writer in writers:
            writer.transport.abort()
        return megabytes

    return uvloop.run(all_of_them())


def growth_for_stopped_reader(name: str, router: Running) -> float:
    """Megabytes that are added when one client asks for a long stream and does not read it."""
    print(f"memory of {name} for a reader that stops for {STOPPED_SECONDS:g} s", file=sys.stderr, flush=True)
    before = memory_mb(router.pid)
    with socket.create_connection(("127.0.0.1", router.port)) as client:
        client.sendall(_request(_LONG_TOKENS, None))
        time.sleep(STOPPED_SECONDS)
        growth = memory_mb(router.pid) - before
        deadline = time.monotonic() + _DRAIN_SECONDS
        client.settimeout(20)
        received, tail = 0, b""
        while not tail.endswith(b"0\r\n\r\n"):
            try:
                data = client.recv(1 << 20)
            except TimeoutError:
                raise SystemExit(f"{name}: the stream whose reader had stopped does not go on") from None
            if not data:
                raise SystemExit(f"{name} cut the stream whose reader had stopped, after {received:,} bytes")
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"{name}: only {received:,} bytes came within {_DRAIN_SECONDS:g} s of the reader's return"
                )
            received += len(data)
            tail = (tail + data[-16:])[-16:]
    if received < _LONG_TOKENS * 100:
        raise SystemExit(f"{name}: the stream whose reader had stopped has only {received:,} bytes")
    return growth
