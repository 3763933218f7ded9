"""An engine that does exactly what a test says, over a real socket: it answers, stalls, dies or babbles at the byte where it shall."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

DONE = b"data: [DONE]\n\n"
HELLO = b'{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"}}]}'
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
DRAINING = b'{"error":{"message":"cannot schedule new futures after shutdown","type":"InternalServerError","code":500}}'
BUSY = b'{"error":{"message":"engine is currently busy","type":"Service Unavailable","param":null,"code":503}}'


def response(body: bytes, status: int = 200, headers: bytes = b"content-type: application/json\r\n") -> bytes:
    return b"HTTP/1.1 %d X\r\n%scontent-length: %d\r\n\r\n%s" % (status, headers, len(body), body)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def token(text: str, index: int = 0) -> bytes:
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "choices": [{"index": index, "delta": {"content": text}}],
    }
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def stream(*events: bytes) -> bytes:
    """A whole stream: each event in its own chunk, the end included."""
    return STREAM_HEAD + b"".join(map(chunk, events)) + LAST_CHUNK


@dataclass
class EngineRequest:
    """What reached the engine."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


class Wire(asyncio.Protocol):
    """One connection to the engine."""

    def __init__(self, engine: "ScriptedEngine") -> None:
        self.engine = engine
        self.transport: asyncio.Transport | None = None
        self.buffer = b""
        self.requests: list[EngineRequest] = []
        self.tasks: list[asyncio.Task[None]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.engine.opened += 1
        self.number = self.engine.opened
        self.engine.wires.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.engine.wires.remove(self)
        self.engine.closed.append(self.number)
        for request in self.requests:
            request.gone.set()
        for task in self.tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (whole := self._next_request()) is not None:
            if whole.line.startswith("GET /metrics "):
                self.engine.looks += 1
                page = self.engine.page
                self.write(response(page, headers=b"content-type: text/plain\r\n") if page else response(b"", 404))
                continue
            self.requests.append(whole)
            self.engine.requests.append(whole)
            self.tasks.append(asyncio.get_running_loop().create_task(self.engine.behaviour(whole, self)))  # type: ignore[arg-type]

    def _next_request(self) -> EngineRequest | None:
        head, separator, rest = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return None
        line, *lines = head.decode("latin-1").split("\r\n")
        pairs = [one.partition(":")[::2] for one in lines]
        headers = [(name.lower(), value.strip()) for name, value in pairs]
        length = int(dict(headers).get("content-length", "0"))
        if len(rest) < length:
            return None
        self.buffer = rest[length:]
        return EngineRequest(line, headers, rest[:length], self.number)

    def write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    @property
    def unsent(self) -> int:
        """Bytes that the other side has not taken yet."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def close(self) -> None:
        assert self.transport is not None
        self.transport.close()

    def abort(self) -> None:
        assert self.transport is not None
        self.transport.abort()


Behaviour = Callable[[EngineRequest, Wire], Awaitable[None]]


def answers(data: bytes) -> Behaviour:
    """Always writes these bytes at once."""

    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(data)

    return behaviour


def dies_after(data: bytes, *, reset: bool = False) -> Behaviour:
    """Writes these bytes, then the connection is gone."""

    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(data)
        if reset:
            await asyncio.sleep(0)  # let the bytes out
            wire.abort()
        else:
            wire.close()

    return behaviour


class ScriptedEngine:
    """A listening engine; change `behaviour` at any time."""

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        self.behaviour = behaviour or answers(response(HELLO))
        self.requests: list[EngineRequest] = []
        self.wires: list[Wire] = []
        self.closed: list[int] = []
        self.opened = 0
        self.page = b""
        """What GET /metrics answers; nothing: 404."""
        self.looks = 0
        """How often somebody has asked for it."""
        self.port = 0
        self._server: asyncio.AbstractServer | None = None

    async def start(self, port: int = 0) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Wire(self), "127.0.0.1", port or self.port)
        self._server = server
        self.port = server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Nobody listens any more; open connections are reset."""
        if self._server is not None:
            self._server.close()
        for wire in list(self.wires):
            wire.abort()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def scripted_engine(behaviour: Behaviour | None = None) -> AsyncIterator[ScriptedEngine]:
    engine = ScriptedEngine(behaviour)
    await engine.start()
    try:
        yield engine
    finally:
        engine.stop()
