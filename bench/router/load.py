"""Closed-loop load over N connections; prints one JSON object with what came back and how long it took."""

import argparse
import asyncio
import functools
import json
import socket
import time
from typing import Any, cast

import httptools
import uvloop


def request(stream: bool, tokens: int, pause_ms: int | None) -> bytes:
    document: dict[str, Any] = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "word " * 100}],
        "max_tokens": tokens,
        "stream": stream,
    }
    if pause_ms is not None:
        document["seed"] = pause_ms
    body = json.dumps(document).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nuser-agent: bench\r\naccept: */*\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body


class Client(asyncio.Protocol):
    def __init__(self, wire: bytes, until: float, delay: float) -> None:
        self.wire, self.until, self.delay = wire, until, delay
        self.done = asyncio.get_running_loop().create_future()
        self.seconds: list[float] = []
        self.first: list[float] = []
        self.reads = self.failures = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.parser: Any = httptools.HttpResponseParser(self)
        asyncio.get_running_loop().call_later(self.delay, self.next)

    def next(self) -> None:
        self.started, self.begun = time.perf_counter(), False
        self.transport.write(self.wire)

    def data_received(self, data: bytes) -> None:
        self.reads += 1
        self.parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        if not self.begun:
            self.begun = True
            self.first.append(time.perf_counter() - self.started)

    def on_message_complete(self) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self.started)
        self.failures += self.parser.get_status_code() != 200
        if now < self.until:
            asyncio.get_running_loop().call_soon(self.next)
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.failures += exc is not None
        self.done.set_result(None)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))] * 1000 if values else 0.0


async def main(arguments: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    wire = request(arguments.stream, arguments.tokens, arguments.pause)
    until = time.perf_counter() + arguments.seconds
    clients = []
    for number in range(arguments.connections):
        # Paced streams begin one after the other: all at once, the last would wait for the first.
        delay = arguments.pause * arguments.tokens / 1000 * number / arguments.connections if arguments.pause else 0.0
        make = functools.partial(Client, wire, until, delay)
        clients.append((await loop.create_connection(make, "127.0.0.1", arguments.port))[1])
    await asyncio.gather(*(client.done for client in clients))
    seconds = [one for client in clients for one in client.seconds]
    first = [one for client in clients for one in client.first]
    result = {
        "requests": len(seconds),
        "failures": sum(client.failures for client in clients),
        "reads": sum(client.reads for client in clients),
        "median_ms": quantile(seconds, 0.5),
        "p99_ms": quantile(seconds, 0.99),
        "first_median_ms": quantile(first, 0.5),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--pause", type=int, help="milliseconds between tokens")
    uvloop.run(main(parser.parse_args()))
