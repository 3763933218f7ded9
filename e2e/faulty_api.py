"""A proxy in front of a Kubernetes API that answers in its place when a test says so; every other answer is the API's own.

It also remembers what it was asked, and when. It speaks to the API as the operator and to the operator without encryption.
"""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from bare_api import BareApi

HOST = "127.0.0.1"
_GONE = b'"code":410'


@dataclass(frozen=True)
class Asked:
    """One request."""

    at: float
    """By time.monotonic()."""
    method: str
    path: str
    query: Mapping[str, str]
    agent: str

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"

    def watches(self, plural: str) -> bool:
        """Whether it watches a kind of object, by its plural name."""
        return self.is_watch and self.path.endswith(f"/{plural}")

    def goes_on(self, plural: str) -> bool:
        """Whether it wants to go on watching from what it has seen."""
        return self.watches(plural) and bool(self.query.get("resourceVersion"))


@dataclass(frozen=True)
class Answer:
    """What is answered instead."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Fault = Callable[[Asked], Answer | None]


class FaultyApi:
    """The proxy; `url` is where it listens."""

    _loop: asyncio.AbstractEventLoop
    _stop: asyncio.Event
    _session: aiohttp.ClientSession

    def __init__(self, server: str, authority: Path, certificate: Path, key: Path) -> None:
        self._server = server
        self._tls = ssl.create_default_context(cafile=str(authority))
        self._tls.load_cert_chain(certificate, key)
        self._fault: Fault | None = None
        self._watches: dict[asyncio.Transport, Asked] = {}
        self.asked: list[Asked] = []
        self.expired = 0
        """Watches that the API itself has ended with 410."""
        self.url = ""

    @contextmanager
    def running(self) -> Iterator["FaultyApi"]:
        """It listens within this context."""
        started: Future[None] = Future()
        thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), daemon=True)
        thread.start()
        started.result(10)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(10)

    @contextmanager
    def faulty(self, fault: Fault) -> Iterator[float]:
        """Within this context requests are answered as `fault` says, and by the API where it says nothing; gives when it began."""
        self._fault = fault
        try:
            yield time.monotonic()
        finally:
            self._fault = None

    def cut(self, plural: str = "") -> None:
        """Cut the connections of watches: of one kind of object, or of all."""

        def abort() -> None:
            for connection, asked in list(self._watches.items()):
                if not plural or asked.watches(plural):
                    connection.abort()

        self._loop.call_soon_threadsafe(abort)

    def asked_since(self, since: float) -> list[Asked]:
        """What was asked after a moment of time.monotonic()."""
        return [one for one in self.asked if one.at >= since]

    async def _serve(self, started: "Future[None]") -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        async with aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None)
        ) as self._session:
            application = web.Application(client_max_size=8 << 20)
            application.router.add_route("*", "/{path:.*}", self._answer)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, HOST, 0).start()
            self.url = f"http://{HOST}:{runner.addresses[0][1]}"
            started.set_result(None)
            await self._stop.wait()
            self.cut()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        agent = request.headers.get("User-Agent", "")
        asked = Asked(time.monotonic(), request.method, request.path, dict(request.query), agent)
        self.asked.append(asked)
        instead = self._fault(asked) if self._fault else None
        if instead is not None:
            return web.Response(status=instead.status, body=instead.body, headers=instead.headers)
        headers = {name: request.headers[name] for name in ("Accept", "Content-Type") if name in request.headers}
        url = URL(self._server + request.raw_path, encoded=True)
        body = await request.read() or None
        connection = request.transport
        assert connection is not None
        try:
            async with self._session.request(
                request.method, url, data=body, headers=headers, skip_auto_headers=["Content-Type"]
            ) as answer:
                relayed = web.StreamResponse(
                    status=answer.status, headers={"Content-Type": answer.headers.get("Content-Type", "text/plain")}
                )
                await relayed.prepare(request)
                if asked.is_watch:
                    self._watches[connection] = asked
                async for chunk in answer.content.iter_any():
                    self.expired += asked.is_watch and _GONE in chunk
                    await relayed.write(chunk)
                return relayed
        except aiohttp.ClientConnectionError:  # the API is away: so is this
            connection.abort()
            return web.Response(status=502)
        finally:
            self._watches.pop(connection, None)


@contextmanager
def faulty_api(api: BareApi) -> Iterator[FaultyApi]:
    """A proxy in front of an API, which speaks to it as the operator."""
    with FaultyApi(api.server, api.pki / "ca.crt", *api.operators_certificate).running() as running:
        yield running


def _status(code: int, reason: str, message: str, **details: object) -> bytes:
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
            "code": code,
        },
        separators=(",", ":"),
    ).encode()


def failure(code: int) -> Answer:
    """A fault of the server, as the API words it; 502 as a load balancer does."""
    if code == 502:
        return Answer(502, b"<html><h1>502 Bad Gateway</h1></html>", {"Content-Type": "text/html"})
    reasons = {500: "InternalError", 503: "ServiceUnavailable"}
    body = _status(code, reasons[code], "an error on the server has prevented the request from succeeding")
    return Answer(code, body, {"Content-Type": "application/json"})


def too_many(seconds: int) -> Answer:
    """As the API sheds load."""
    words = b"Too many requests, please try again later.\n"
    return Answer(429, words, {"Content-Type": "text/plain", "Retry-After": str(seconds)})


def gone() -> Answer:
    """What a watch gets that wants to go on from where the API no longer remembers."""
    return _ended(410, "Expired", "too old resource version: 1 (2)")


def broken_off() -> Answer:
    """What a watch gets when the server loses it."""
    return _ended(500, "InternalError", "etcdserver: no leader")


def _ended(code: int, reason: str, message: str) -> Answer:
    event = f'{{"type":"ERROR","object":{_status(code, reason, message).decode()}}}\n'.encode()
    return Answer(200, event, {"Content-Type": "application/json"})
