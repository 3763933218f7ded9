import concurrent.futures
import json
import socket
from collections.abc import Iterator

import httpx
import pytest
from simulator_process import HOST, Simulator, simulator


@pytest.fixture(scope="module")
def engine() -> Iterator[Simulator]:
    with simulator(
        "--api-key", "secret", "--max-num-queued-tokens", "100", "--max-num-batched-tokens", "16"
    ) as running:
        yield running


@pytest.fixture(scope="module")
def brief() -> Iterator[Simulator]:
    """One whose answers are short where they may be."""
    with simulator("--sim-mean-answer", "5", "--max-num-seqs", "16") as running:
        yield running


@pytest.fixture(scope="module")
def slow() -> Iterator[Simulator]:
    """One that takes the time of its slice."""
    with simulator("--sim-speed", "1", "--sim-slice", "2g.20gb", "--max-model-len", "8192") as running:
        yield running


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}])
def test_without_the_key_the_api_is_closed(engine: Simulator, headers: dict[str, str]) -> None:
    answer = httpx.get(f"{engine.url}/v1/models", headers=headers, trust_env=False)
    assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})


def test_with_the_key_it_is_open_and_health_and_metrics_always_are(engine: Simulator) -> None:
    key = {"authorization": "Bearer secret"}
    assert httpx.get(f"{engine.url}/v1/models", headers=key, trust_env=False).status_code == 200
    for path in ("/health", "/metrics", "/version", "/load"):
        assert httpx.get(f"{engine.url}{path}", trust_env=False).status_code == 200


def test_the_same_seed_gives_the_same_answer_and_no_seed_another(brief: Simulator) -> None:
    said = [brief.ask(seed=seed).json()["choices"][0]["text"] for seed in (7, 7, None, None)]
    assert said[0] == said[1]
    assert len(set(said)) == 3


def test_an_answer_ends_by_itself_unless_it_may_not(brief: Simulator) -> None:
    reasons = [brief.ask(max_tokens=200, ignore_eos=False).json()["choices"][0]["finish_reason"] for _ in range(5)]
    assert reasons == ["stop"] * 5
    assert brief.ask(max_tokens=200).json()["choices"][0]["finish_reason"] == "length"


@pytest.mark.slow
def test_many_requests_at_once_all_end_and_leave_nothing_behind(brief: Simulator) -> None:
    before = brief.value("request_success_total")
    with concurrent.futures.ThreadPoolExecutor(40) as clients:
        answers = list(clients.map(lambda number: brief.ask(max_tokens=10 + number % 7), range(120)))
    assert [answer.json()["usage"]["completion_tokens"] for answer in answers] == [10 + n % 7 for n in range(120)]
    assert {brief.value(name) for name in ("num_requests_running", "num_requests_waiting")} == {0}
    assert brief.value("kv_cache_usage_perc") == 0
    assert brief.value("request_success_total") - before == 120


def test_clients_that_go_before_their_answer_begins_leave_nothing_behind(slow: Simulator) -> None:
    body = json.dumps({"prompt": "x", "max_tokens": 5000, "ignore_eos": True, "stream": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    for _ in range(30):
        with socket.create_connection((HOST, slow.port)) as connection:
            connection.sendall(head.encode() + b"\r\n\r\n" + body)
    slow.ask(max_tokens=100)  # they had the time of this answer to go
    assert slow.value("num_requests_running") == 0


def test_a_step_takes_the_time_of_its_slice(slow: Simulator) -> None:
    def latencies() -> list[float]:
        return [slow.value(f"inter_token_latency_seconds_{what}") for what in ("sum", "count")]

    before = latencies()
    slow.ask(max_tokens=60)
    summed, count = (now - then for then, now in zip(before, latencies(), strict=True))
    seconds = summed / count
    assert 0.0155 < seconds < 0.03  # 16 ms on an idle machine
