"""Closed-loop load over N connections; prints one JSON object with what came back and how long it took.

Every answer is compared with what the engine sends, byte by byte: a number that errors made would be worth nothing.
"""

import argparse
import asyncio
import functools
import json
import socket
import time
from typing import Any, cast

import httptools
import uvloop
from fake_engine import ANSWER, FIRST, TOKEN

PLAIN_BODY = ANSWER.partition(b"\r\n\r\n")[2]


def request(arguments: argparse.Namespace) -> bytes:
    prompt = ("word " * (arguments.characters // 5 + 1))[: arguments.characters]
    document: dict[str, Any] = {
        "model": "tiny",
        "max_tokens": arguments.tokens,
        "stream": arguments.stream,
        "messages": [{"role": "user", "content": prompt}],
    }
    if arguments.pause:
        document["seed"] = arguments.pause
    body = json.dumps(document).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nuser-agent: bench\r\naccept: */*\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


def answer(arguments: argparse.Namespace) -> bytes:
    """The body of a right answer."""
    if not arguments.stream:
        return PLAIN_BODY
    first, token = (event.partition(b"\r\n")[2][:-2] for event in (FIRST, TOKEN))
    return first + token * arguments.tokens + b"data: [DONE]\n\n"


class Load:
    """What all connections share."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.wire, self.answer = request(arguments), answer(arguments)
        self.until = float("inf")
        self.requests_left = arguments.requests
        self.open = arguments.connections
        self.done = asyncio.get_running_loop().create_future()
        self.seconds: list[float] = []
        self.first: list[float] = []
        self.failures = self.wrong = 0

    def goes_on(self) -> bool:
        if self.requests_left is None:
            return time.perf_counter() < self.until
        self.requests_left -= 1
        return bool(self.requests_left >= 0)

    def closed(self) -> None:
        self.open -= 1
        if not self.open:
            self.done.set_result(None)


class Client(asyncio.Protocol):
    def __init__(self, load: Load, delay: float) -> None:
        self.load, self.delay = load, delay
        self.parts: list[bytes] = []
        self.running = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.parser: Any = httptools.HttpResponseParser(self)
        asyncio.get_running_loop().call_later(self.delay, self.next)

    def next(self) -> None:
        if self.load.goes_on():
            self.started, self.running = time.perf_counter(), True
            self.transport.write(self.load.wire)
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        if not self.parts:
            self.load.first.append(time.perf_counter() - self.started)
        self.parts.append(data)

    def on_message_complete(self) -> None:
        load = self.load
        load.seconds.append(time.perf_counter() - self.started)
        load.failures += self.parser.get_status_code() != 200
        load.wrong += b"".join(self.parts) != load.answer
        self.parts.clear()
        self.running = False
        asyncio.get_running_loop().call_soon(self.next)

    def connection_lost(self, exc: Exception | None) -> None:
        self.load.failures += self.running or exc is not None
        self.load.closed()


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))] * 1000 if values else 0.0


async def main(arguments: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    load = Load(arguments)
    for number in range(arguments.connections):
        # Paced streams begin one after the other: all at once, the last would wait for the first.
        delay = arguments.pause * arguments.tokens / 1000 * number / arguments.connections
        await loop.create_connection(functools.partial(Client, load, delay), "127.0.0.1", arguments.port)
    load.until = time.perf_counter() + arguments.seconds
    await load.done
    result = {
        "requests": len(load.seconds),
        "tokens": len(load.seconds) * arguments.tokens,
        "failures": load.failures,
        "wrong": load.wrong,
        "median_ms": quantile(load.seconds, 0.5),
        "p99_ms": quantile(load.seconds, 0.99),
        "first_median_ms": quantile(load.first, 0.5),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--requests", type=int, help="as many in all, instead of --seconds")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--characters", type=int, default=500, help="of the prompt")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--pause", type=int, default=0, help="milliseconds between tokens")
    uvloop.run(main(parser.parse_args()))
