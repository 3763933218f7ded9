"""A whole data path on a loopback port, inside the test's event loop, and a client that sees every byte."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scripted_engine import ScriptedEngine

from workslice_router.admission import Admission
from workslice_router.api_keys import ApiKeys
from workslice_router.client_connection import ClientConnection
from workslice_router.data_path import DataPath
from workslice_router.estimate import Estimator
from workslice_router.metrics import Metrics
from workslice_router.routing_table import PoolSpec, ReplicaSpec, RoutingTable
from workslice_router.settings import Settings

CHAT = "/v1/chat/completions"
DEADLINE = 10.0


async def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Wait until it holds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE
    while not condition():
        assert loop.time() < deadline, f"{what} did not come true within {DEADLINE} s"
        await asyncio.sleep(0.002)


def pool(name: str = "short", **changes: Any) -> PoolSpec:
    spec = PoolSpec(key=f"default/{name}", model="tiny", class_name=name, class_tokens=2048, context_tokens=2048)
    return replace(spec, **{"aliases": ("tiny-alias",), "max_concurrent": 16, **changes})


def replicas(*engines: ScriptedEngine) -> tuple[ReplicaSpec, ...]:
    return tuple(ReplicaSpec(f"engine-{number}", "127.0.0.1", engine.port) for number, engine in enumerate(engines))


def chat(content: str = "hi", **fields: Any) -> bytes:
    document = {"model": "tiny", "messages": [{"role": "user", "content": content}], "max_tokens": 8, **fields}
    return json.dumps(document).encode()


def post(body: bytes, *, path: str = CHAT, headers: Iterable[str] = (), version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "host: router", "content-type: application/json", *headers]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


@dataclass
class Answer:
    """A response as it was read from the wire."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    complete: bool = False
    """It ended as its framing says, not with the connection."""
    chunks: list[bytes] = field(default_factory=list)

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.body)["error"]
        return error


class WireClient:
    """A client connection without any HTTP library between."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> Answer:
        """The head of the next response; interim ones, too."""
        async with asyncio.timeout(DEADLINE):
            line, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
        headers: dict[str, str] = {}
        for one in lines:
            name, _, value = one.partition(": ")
            assert name not in headers, f"header {name} twice"
            headers[name] = value
        return Answer(int(line.split()[1]), headers)

    async def answer(self, *, bodiless: bool = False) -> Answer:
        """The next response, as far as it goes."""
        answer = await self.head()
        async with asyncio.timeout(DEADLINE):
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                if bodiless:
                    answer.complete = True
                elif answer.headers.get("transfer-encoding") == "chunked":
                    while not answer.complete:
                        await self._chunk(answer)
                elif "content-length" in answer.headers:
                    answer.body = await self.reader.readexactly(int(answer.headers["content-length"]))
                    answer.complete = True
                else:
                    answer.body = await self.reader.read()
        return answer

    async def _chunk(self, answer: Answer) -> None:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = (await self.reader.readexactly(size + 2))[:-2]
        answer.complete = size == 0
        if data:
            answer.chunks.append(data)
            answer.body += data

    async def closed(self) -> bool:
        """Whether the router closes the connection without another byte."""
        try:
            async with asyncio.timeout(DEADLINE):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def leave(self) -> None:
        self.writer.transport.abort()


@dataclass
class RunningRouter:
    """The router of one test."""

    data_path: DataPath
    table: RoutingTable
    port: int
    server: asyncio.AbstractServer

    @property
    def admission(self) -> Admission:
        return self.data_path.admission

    @contextlib.asynccontextmanager
    async def client(self, address: str = "127.0.0.1") -> AsyncIterator[WireClient]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0))
        try:
            yield WireClient(reader, writer)
        finally:
            writer.transport.abort()

    async def ask(self, body: bytes | None = None, address: str = "127.0.0.1", **options: Any) -> Answer:
        """One POST on a connection of its own, from this address of the machine."""
        async with self.client(address) as client:
            await client.send(post(chat() if body is None else body, **options))
            return await client.answer()

    def at_rest(self) -> bool:
        """Nothing runs, waits or is accounted for."""
        pools = self.table.pools.values()
        everyone = [replica for pool in pools for replica in pool.replicas]
        return not (
            self.data_path.exchanges
            or self.admission.in_flight
            or self.admission.waiting
            or self.admission.queued_bytes
            or any(pool.running for pool in pools)
            or any(replica.in_flight or replica.outstanding_tokens for replica in everyone)
        )


@contextlib.asynccontextmanager
async def running_router(
    *engines: ScriptedEngine, spec: PoolSpec | None = None, keys: Path | None = None, **changes: Any
) -> AsyncIterator[RunningRouter]:
    """A router with one pool of these engines; `changes` go into its settings."""
    loop = asyncio.get_running_loop()
    table, estimator, metrics = RoutingTable(), Estimator(), Metrics()
    one = spec or pool()
    table.put_pool(one)
    table.put_replicas(one.key, replicas(*engines))
    table.synced = True
    table.commit()
    admission = Admission(table, estimator, metrics, loop.time, lambda: 0.5)
    data_path = DataPath(Settings(**changes), table, admission, estimator, metrics, ApiKeys(keys))
    server = await loop.create_server(lambda: ClientConnection(data_path), "127.0.0.1", 0)
    sweep = loop.create_task(data_path.sweep_for_ever())
    router = RunningRouter(data_path, table, server.sockets[0].getsockname()[1], server)
    try:
        yield router
        await until(router.at_rest, "the router's accounts to be zero")
    finally:
        sweep.cancel()
        server.close()
        data_path.close()
