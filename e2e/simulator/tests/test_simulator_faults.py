import asyncio
import json
import signal
import socket
import time
from collections.abc import Iterator
from unittest.mock import Mock

import httpx
import pytest
from simulator_process import HOST, Simulator, simulator

from engine_sim.faults import Faults
from engine_sim.faulty_connection import FaultyTransport


@pytest.fixture(scope="module")
def shared() -> Iterator[Simulator]:
    with simulator() as running:
        yield running


@pytest.fixture
def engine(shared: Simulator) -> Iterator[Simulator]:
    """One that survives its faults; none of them are left for the next test."""
    yield shared
    shared.set_faults()


@pytest.fixture
def mortal() -> Iterator[Simulator]:
    with simulator() as running:
        yield running


def events(engine: Simulator, tokens: int) -> Iterator[str]:
    """The events of a stream."""
    body = {"prompt": "What comes next?", "max_tokens": tokens, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{engine.url}/v1/completions", json=body, timeout=5, trust_env=False) as response:
        for line in response.iter_lines():
            if line:
                yield line.removeprefix("data: ")


def test_a_core_that_dies_ends_streams_with_an_error_and_done_and_then_the_server(mortal: Simulator) -> None:
    mortal.set_faults(core_dies_after=5)
    *said, error, done = events(mortal, 50)
    assert (len(said), done) == (5, "[DONE]")
    assert json.loads(error)["error"]["code"] == 500
    assert mortal.ask().status_code == 500
    assert mortal.process.wait(5) == 0


def test_a_server_told_to_outlive_its_core_answers_500_and_is_not_healthy() -> None:
    with simulator(VLLM_KEEP_ALIVE_ON_ENGINE_DEATH="1") as engine:
        engine.set_faults(core_dies_after=0)
        assert [engine.ask().status_code for _ in range(2)] == [500, 500]
        assert httpx.get(f"{engine.url}/health", trust_env=False).status_code == 503


def test_a_process_that_dies_cuts_its_streams(mortal: Simulator) -> None:
    mortal.set_faults(process_dies_after=5)
    with pytest.raises(httpx.RemoteProtocolError):
        list(events(mortal, 50))
    assert mortal.process.wait(5) == -signal.SIGKILL


def test_an_engine_that_hangs_looks_healthy_and_goes_on_when_the_fault_is_gone(engine: Simulator) -> None:
    engine.set_faults(hangs_after=3)
    stream = events(engine, 10)
    assert len([next(stream) for _ in range(3)]) == 3
    assert httpx.get(f"{engine.url}/health", trust_env=False).status_code == 200
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{engine.url}/v1/completions", json={"prompt": "x"}, timeout=0.3, trust_env=False)
    engine.set_faults()
    assert list(stream)[-1] == "[DONE]"


def test_a_reset_connection_ends_after_the_bytes_it_was_allowed(engine: Simulator) -> None:
    engine.set_faults(reset_after=700)
    received: list[bytes] = []
    with pytest.raises(ConnectionResetError):
        received.extend(pieces(engine, stream=True))
    assert 0 < len(b"".join(received).partition(b"\r\n\r\n")[2]) <= 700


def test_split_writes_arrive_whole(engine: Simulator) -> None:
    engine.set_faults(split_writes=40)
    answer = engine.ask()
    assert answer.json()["usage"]["completion_tokens"] == 8
    assert b"".join(pieces(engine, stream=False, close=True)).endswith(b"}")


async def test_split_writes_go_out_in_crumbs_one_after_the_other() -> None:
    """Looked at before the network, in which crumbs flow together when their reader is slow."""
    writes: list[bytes] = []
    closed = asyncio.Event()
    transport = Mock(spec=asyncio.Transport)
    transport.write.side_effect = writes.append
    transport.is_closing.return_value = False
    transport.close.side_effect = closed.set
    faulty = FaultyTransport(transport, lambda: Faults(split_writes=40), lambda: True)
    faulty.write(bytes(range(100)))
    assert [len(crumb) for crumb in writes] == [40], "the others come later"
    faulty.close()
    async with asyncio.timeout(20):
        await closed.wait()
    assert [len(crumb) for crumb in writes] == [40, 40, 20]
    assert b"".join(writes) == bytes(range(100))


@pytest.mark.parametrize("off_by", [7, -7])
def test_a_wrong_content_length_is_not_that_of_the_body(engine: Simulator, off_by: int) -> None:
    engine.set_faults(content_length_off_by=off_by)
    whole = b"".join(pieces(engine, stream=False, close=True))
    head, _, body = whole.partition(b"\r\n\r\n")
    told = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    assert told == len(body) + off_by


def test_faults_of_connections_leave_the_probes_alone(engine: Simulator) -> None:
    engine.set_faults(reset_after=0, content_length_off_by=5)
    assert httpx.get(f"{engine.url}/health", trust_env=False).status_code == 200
    assert httpx.get(f"{engine.url}/v1/models", trust_env=False).json()["object"] == "list"


def test_a_slow_start_does_not_listen_before_its_time() -> None:
    began = time.monotonic()
    with simulator("--sim-faults", '{"start_seconds": 1.5}'):
        assert time.monotonic() - began > 1.5


def test_without_the_flag_there_is_no_route_for_faults() -> None:
    with simulator(fault_route=False) as engine:
        assert httpx.get(f"{engine.url}/simulator/faults", trust_env=False).status_code == 404


def test_a_misspelt_fault_is_refused(engine: Simulator) -> None:
    answer = httpx.put(f"{engine.url}/simulator/faults", json={"hang": 1}, trust_env=False)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "body.hang")


def pieces(engine: Simulator, *, stream: bool, close: bool = False) -> Iterator[bytes]:
    """What arrives of a response, piece by piece, until the connection ends."""
    body = json.dumps({"prompt": "x", "max_tokens": 20, "ignore_eos": True, "stream": stream}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n" + ("Connection: close\r\n" if close else "") + "\r\n"
    with socket.create_connection((HOST, engine.port), timeout=5) as connection:
        connection.sendall(head.encode() + body)
        while piece := connection.recv(65536):
            yield piece
