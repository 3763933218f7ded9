"""A vLLM whose answers cost next to nothing: prebuilt bytes, so that what a bench measures is the router.

`"seed": N` in a request asks for a stream with N milliseconds between its tokens; without it a stream comes in one burst.
GET is answered as by an engine that is well, /metrics with its gauges.
"""

import argparse
import asyncio
import functools
import json
import re
import socket
from typing import Any, cast

import httptools
import uvloop

BASE = {"id": "chatcmpl-0123456789abcdef", "created": 1700000000, "model": "tiny"}
SEED = re.compile(rb'"seed": ?(\d+)')
TOKENS = re.compile(rb'"max_tokens": ?(\d+)')
STREAM = re.compile(rb'"stream": ?true')


def event(delta: dict[str, str]) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    data = b"data: " + json.dumps({**BASE, "object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer() -> bytes:
    message = {"role": "assistant", "content": "hello " * 40}
    usage = {"prompt_tokens": 120, "total_tokens": 160, "completion_tokens": 40}
    choices = [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}]
    body = json.dumps({**BASE, "object": "chat.completion", "choices": choices, "usage": usage}).encode()
    head = b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


ANSWER = answer()
MODELS = b'{"object":"list","data":[{"id":"tiny","object":"model"}]}'
WELL = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(MODELS), MODELS)
GAUGES = b"""vllm:num_requests_running{engine="0",model_name="tiny"} %d.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.1
"""
PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: %d\r\n\r\n%b"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
FIRST, TOKEN = event({"role": "assistant", "content": ""}), event({"content": " hello"})
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Running:
    """How many streams an engine has open."""

    def __init__(self) -> None:
        self.number = 0


class Engine(asyncio.Protocol):
    def __init__(self, running: Running) -> None:
        self.running = running

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.parser: Any = httptools.HttpRequestParser(self)
        self.body: list[bytes] = []
        self.target = b""

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, target: bytes) -> None:
        self.target = target

    def on_body(self, data: bytes) -> None:
        self.body.append(data)

    def on_message_complete(self) -> None:
        if self.parser.get_method() == b"GET":
            page = GAUGES % self.running.number
            self.transport.write(PAGE % (len(page), page) if self.target == b"/metrics" else WELL)
            return
        parts, self.body = self.body, []
        body = b"".join(parts)
        body = body[:1024] + body[-1024:]  # what asks for a stream stands at one of the ends
        if not STREAM.search(body):
            self.transport.write(ANSWER)
            return
        tokens, pause = int((TOKENS.search(body) or [b"", b"16"])[1]), SEED.search(body)
        if pause is None:
            self.transport.write(HEAD + FIRST + TOKEN * tokens + END)
        else:
            self.transport.write(HEAD)
            self.running.number += 1
            self.later(int(pause[1]) / 1000, tokens, FIRST)  # vLLM says who speaks together with the first token

    def later(self, pause: float, tokens: int, before: bytes = b"") -> None:
        asyncio.get_running_loop().call_later(pause, self.say, pause, tokens, before)

    def say(self, pause: float, tokens: int, before: bytes) -> None:
        if self.transport.is_closing():
            self.running.number -= 1
            return
        self.transport.write(before + (TOKEN if tokens else END))
        if tokens:
            self.later(pause, tokens - 1)
        else:
            self.running.number -= 1


async def main(ports: list[int]) -> None:
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(functools.partial(Engine, Running()), "127.0.0.1", port, backlog=2048)
        for port in ports
    ]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--ports", type=int, nargs="+", required=True)
    uvloop.run(main(arguments.parse_args().ports))
