"""Engines whose machine is gone: their connections stay open and nothing is acknowledged any more, not even by a reset."""

import asyncio
import ctypes
import json
import socket
import struct

import pytest
from router_under_test import RunningRouter, chat, pool, running_router, until
from scripted_engine import (
    HELLO,
    STREAM_HEAD,
    EngineRequest,
    ScriptedEngine,
    Wire,
    chunk,
    scripted_engine,
    token,
)

from workslice_router import dead_peer
from workslice_router.settings import Settings

PATIENCE = 0.7
LONGER = 3.0
"""Than the silence that ends a connection of the impatient, in seconds."""
SILENCE = 2.0
"""After so many seconds the impatient router below knows that a node is lost on which nothing new is tried."""
SLACK = 3.0
"""Seconds for the sweep, and for a machine that has other things to do."""
_SO_ATTACH_FILTER = 26
_DROP_EVERYTHING = struct.pack("=HBBI", 6, 0, 0, 0)  # one instruction of a classic BPF program: return 0


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def lose(engine: ScriptedEngine) -> None:
    """From now on the kernel drops all that comes for the engine, before it could acknowledge it: so does a cut cable."""
    instructions = ctypes.create_string_buffer(_DROP_EVERYTHING)
    program = bytes(_Program(1, ctypes.addressof(instructions)))
    transports = [wire.transport for wire in engine.wires]
    assert engine._server is not None
    sockets = [*engine._server.sockets, *(one.get_extra_info("socket") for one in transports if one is not None)]  # type: ignore[attr-defined]
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def ejected(router: RunningRouter) -> list[bool]:
    (one,) = router.table.pools.values()
    return [replica.health.ejected for replica in one.replicas]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """SILENCE ends a connection."""
    for name in ("PROBE_AFTER_SECONDS", "PROBE_EVERY_SECONDS", "PROBES"):
        monkeypatch.setattr(dead_peer, name, 1)


def test_a_lost_node_is_noticed_after_two_seconds_where_something_is_sent_and_after_five_where_something_runs():
    assert Settings().connect_timeout == 2
    assert dead_peer.PROBE_AFTER_SECONDS + dead_peer.PROBES * dead_peer.PROBE_EVERY_SECONDS == 5
    assert dead_peer.SILENT_SECONDS == 5


async def begins_to_stream(request: EngineRequest, wire: Wire) -> None:
    wire.write(STREAM_HEAD + chunk(token("a")))


async def computes(request: EngineRequest, wire: Wire) -> None: ...


@pytest.mark.parametrize("connected", [True, False], ids=["over an open connection", "over a new connection"])
async def test_a_request_that_a_lost_node_does_not_acknowledge_goes_to_another_replica(connected: bool):
    async with (
        scripted_engine() as lost,
        scripted_engine() as other,
        running_router(lost, other, connect_timeout=PATIENCE) as router,
    ):
        if connected:  # the two replicas take turns
            assert [(await router.ask()).status for _ in range(2)] == [200, 200]
        lose(lost)
        asked = len(lost.requests)
        async with asyncio.timeout(PATIENCE + SLACK):
            answers = await asyncio.gather(*(router.ask() for _ in range(4)))
        assert ejected(router) == [True, False]
        # Nobody else waits for the lost one, not even for a moment.
        answers.append(await router.ask())
    assert [(one.status, one.body, one.headers["x-workslice-replica"]) for one in answers] == [
        (200, HELLO, "engine-1")
    ] * 5
    assert len(lost.requests) == asked
    assert other.requests


async def test_a_request_that_waits_at_a_lost_node_goes_to_another_replica(impatient: None):
    async with scripted_engine(computes) as lost, scripted_engine() as other, running_router(lost, other) as router:
        waiting = asyncio.create_task(router.ask())
        await until(lambda: lost.requests, "the request to come")
        lose(lost)
        async with asyncio.timeout(SILENCE + SLACK):
            answer = await waiting
        assert ejected(router) == [True, False]
    assert (answer.status, answer.headers["x-workslice-replica"]) == (200, "engine-1")


async def test_a_stream_of_a_lost_node_ends_with_an_error_event(impatient: None):
    async with scripted_engine(begins_to_stream) as lost, running_router(lost) as router:
        streaming = asyncio.create_task(router.ask(chat(stream=True)))
        await until(lambda: lost.requests, "the request to come")
        lose(lost)
        async with asyncio.timeout(SILENCE + SLACK):
            answer = await streaming
        assert ejected(router) == [True]
    first, last = (event for event in answer.body.split(b"\n\n") if event)
    assert first + b"\n\n" == token("a")
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "stream_interrupted"
    assert not answer.complete


@pytest.mark.slow
@pytest.mark.parametrize("characters", [10, 8_000_000], ids=["a short one", "one that its buffers cannot hold"])
async def test_a_request_to_a_stopped_engine_is_answered_when_the_engine_goes_on(impatient: None, characters: int):
    loop = asyncio.get_running_loop()
    engine = ScriptedEngine()
    listening = socket.create_server(("127.0.0.1", 0))  # its kernel takes connections and acknowledges, nobody reads
    engine.port = listening.getsockname()[1]
    large = pool(class_tokens=10**8, context_tokens=10**8)
    async with running_router(engine, spec=large, connect_timeout=PATIENCE) as router:
        stopped = loop.time()
        asked = asyncio.create_task(router.ask(chat("x" * characters)))
        await until(lambda: loop.time() > stopped + LONGER or asked.done(), "the time to pass")
        assert not asked.done(), "it hangs, which costs it new requests but not those that it has"
        server = await loop.create_server(lambda: Wire(engine), sock=listening)
        answer = await asked
        server.close()
    sent = [request for request in engine.requests if request.line.startswith("POST ")]  # its health is asked as well
    assert (answer.status, answer.body, len(sent)) == (200, HELLO, 1)
