"""The simulated engine under load, drained and killed, beside real vLLM: the cache, the queue, and every way to end."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from demo.waiting import NotYet, wait_until

import conforming_engines
from conformance_cases import TEXT, Case, ask, chat, text, told_headers
from conforming_engines import BACKLOG, CONTEXT, LONG_CONTEXT
from engine_metrics_page import value, wait_for_value
from engine_processes import HOST, EngineProcess, Pair
from engine_stream import Stream
from json_shape import shape
from raw_response import post_raw

SECONDS = 4000
"""Tokens of an answer that takes seconds."""


@pytest.fixture
def engines() -> Pair:
    return conforming_engines.wide_engines()


@pytest.fixture
def narrow_engines() -> Pair:
    return conforming_engines.narrow_engines()


def test_a_prefix_is_cached_under_its_own_salt_only(engines: Pair) -> None:
    prompt = "A long prompt that is asked again and again, word for word. " * 40

    def hits(engine: EngineProcess) -> list[bool]:
        found = []
        for salt in ("a", "a", "b", None):
            before = value(engine, "prefix_cache_hits_total")
            ask(engine, text("", prompt=prompt, **({"cache_salt": salt} if salt else {})))
            found.append(value(engine, "prefix_cache_hits_total") > before)
        return found

    assert engines.both(hits) == ([False, True, False, False],) * 2


def test_the_same_tokens_are_found_in_the_cache_and_counted_alike(engines: Pair) -> None:
    names = ("prefix_cache_queries", "prefix_cache_hits", "prompt_tokens", "prompt_tokens_cached", "generation_tokens")

    def twice(engine: EngineProcess) -> list[dict[str, float]]:
        moved = []
        for _ in range(2):
            before = {name: value(engine, f"{name}_total") for name in names}
            ask(engine, text("", prompt=list(range(100, 400)), max_tokens=5))
            moved.append({name: value(engine, f"{name}_total") - before[name] for name in names})
        return moved

    simulated, real = engines.both(twice)
    assert simulated == real
    assert [once["prefix_cache_hits"] for once in real] == [0, 256]  # whole blocks of 128


def test_a_running_prompt_holds_its_blocks_until_it_has_ended(engines: Pair) -> None:
    def shares(engine: EngineProcess) -> tuple[bool, float]:
        running = Stream(engine, prompt=list(range(500, 1000)), max_tokens=CONTEXT - 600)
        assert running.started.wait(10)
        used = value(engine, "kv_cache_usage_perc")
        running.end()
        wait_for_value(engine, "num_requests_running", 0)
        return 0.1 < used < 0.6, value(engine, "kv_cache_usage_perc")

    assert engines.both(shares) == ((True, 0),) * 2


def test_an_idle_connection_is_closed_after_five_seconds(engines: Pair) -> None:
    def idle(engine: EngineProcess) -> float:
        with socket.create_connection((HOST, engine.port), timeout=10) as connection:
            connection.sendall(f"GET /health HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 OK")
            began = time.monotonic()
            assert connection.recv(4096) == b""
            return time.monotonic() - began

    for seconds in engines.both(idle):
        assert 4.5 < seconds < 6.5


def test_when_kv_blocks_run_out_requests_are_preempted_and_all_of_them_end(engines: Pair) -> None:
    def crowd(engine: EngineProcess) -> tuple[list[int], bool]:
        before = value(engine, "num_preemptions_total")
        cases = [text("", prompt=f"Number {number}", max_tokens=1600) for number in range(3)]
        with ThreadPoolExecutor(3) as threads:
            answers = list(threads.map(lambda case: ask(engine, case), cases))
        tokens = [answer.json()["usage"]["completion_tokens"] for answer in answers]
        return tokens, value(engine, "num_preemptions_total") > before

    assert engines.both(crowd) == (([1600] * 3, True),) * 2


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_client_that_goes_frees_its_place_within_a_second(engines: Pair, stream: bool) -> None:
    case = text("", max_tokens=CONTEXT - 100, stream=stream)

    def leave(engine: EngineProcess) -> None:
        with engine.client() as client:
            request = client.build_request("POST", case.path, json=case.body)
            if stream:
                response = client.send(request, stream=True)
                pieces = response.iter_bytes()
                assert next(pieces)
                assert value(engine, "num_requests_running") == 1
                response.close()
            else:
                with pytest.raises(httpx.ReadTimeout):
                    client.send(client.build_request("POST", case.path, json=case.body, timeout=0.3))
        wait_for_value(engine, "num_requests_running", 0, seconds=1)

    engines.both(leave)


def test_one_place_is_given_by_priority_and_the_queue_has_a_limit(narrow_engines: Pair) -> None:
    def fill(engine: EngineProcess) -> dict[str, Any]:
        rejected = value(engine, "admission_rejections_total")
        running = Stream(engine, max_tokens=SECONDS)
        assert running.started.wait(10)
        later = Stream(engine, max_tokens=400, priority=5)
        wait_for_value(engine, "num_requests_waiting", 1)
        sooner = Stream(engine, max_tokens=400, priority=-1)
        wait_for_value(engine, "num_requests_waiting", 2)
        seen = {name: value(engine, name) for name in ("num_requests_running", "num_requests_waiting")}
        refused = ask(engine, text(""))
        assert sooner.started.wait(20)
        order = "sooner first" if not later.started.is_set() else "later first"
        for stream in (running, later, sooner):
            assert stream.end()[-1] == "[DONE]"
        rejections = value(engine, "admission_rejections_total") - rejected
        return seen | {
            "status": refused.status_code,
            "headers": told_headers(refused),
            "body": refused.json(),
            "order": order,
            "rejections": rejections,
        }

    simulated, real = narrow_engines.both(fill)
    assert simulated == real
    assert (real["status"], real["order"]) == (503, "sooner first")


def test_flags_that_add_to_answers_add_the_same(narrow_engines: Pair) -> None:
    def answers(engine: EngineProcess) -> list[Any]:
        whole = ask(engine, chat("")._replace(headers={"x-request-id": "mine"}))
        stream = post_raw(engine.url, TEXT, text("", stream=True, max_tokens=200).body)
        events = [json.loads(chunk.removeprefix(b"data: ")) for chunk in stream.chunks[:-1]]
        details = whole.json()["usage"]["prompt_tokens_details"]
        name = whole.headers["x-request-id"]
        return [
            name,
            told_headers(whole),
            shape(whole.json()),
            details,
            sorted({repr(shape(event)) for event in events}),
        ]

    simulated, real = narrow_engines.both(answers)
    assert simulated == real
    assert real[0] == "mine"


def test_a_stream_that_waits_gets_comments_and_what_runs_and_waits_counts_as_load(narrow_engines: Pair) -> None:
    def wait(engine: EngineProcess) -> tuple[list[bytes], int]:
        running = Stream(engine, max_tokens=SECONDS)
        assert running.started.wait(10)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(post_raw, engine.url, TEXT, text("", stream=True).body)
            wait_for_value(engine, "num_requests_waiting", 1)
            load = ask(engine, Case("", "/load", method="GET")).json()["server_load"]
            chunks = waiting.result().chunks
        running.end()
        return sorted({chunk for chunk in chunks if not chunk.startswith(b"data: ")}), load

    simulated, real = narrow_engines.both(wait)
    assert simulated == real == ([b": keep-alive\n\n"], 2)


def test_a_backlog_of_prompts_is_refused_in_other_words_than_a_full_queue(narrow_engines: Pair) -> None:
    def overload(engine: EngineProcess) -> tuple[int, Any]:
        running = Stream(engine, max_tokens=SECONDS)
        assert running.started.wait(10)
        long = Stream(engine, prompt=[65] * (BACKLOG + 1), max_tokens=1)
        wait_for_value(engine, "num_requests_waiting", 1)
        refused = ask(engine, text(""))
        assert [stream.end()[-1] for stream in (running, long)] == ["[DONE]"] * 2
        return refused.status_code, refused.json()

    simulated, real = narrow_engines.both(overload)
    assert simulated == real
    assert real[0] == 503


def kill_core(engine: EngineProcess) -> None:
    """Kill the process behind the real server; the simulator has none, and is told to act as if."""
    with engine.client() as client:
        if client.put("/simulator/faults", json={"core_dies_after": 0}).status_code == 200:
            return
    named = {pid: Path(f"/proc/{pid}/comm").read_text() for pid in engine.children()}
    cores = [pid for pid, name in named.items() if "EngineCore" in name or "VLLM::" in name]
    assert len(cores) == 1, named
    os.kill(cores[0], signal.SIGKILL)


def test_when_the_core_dies_streams_end_with_an_error_others_get_500_and_the_server_ends(engines: Pair) -> None:
    def die(engine: EngineProcess) -> dict[str, Any]:
        with ThreadPoolExecutor(1) as threads:
            running = Stream(engine, max_tokens=CONTEXT - 100)
            whole: Future[httpx.Response] = threads.submit(ask, engine, text("", max_tokens=CONTEXT - 100))
            wait_for_value(engine, "num_requests_running", 2)
            kill_core(engine)
            events = running.end()
            answer = whole.result()
        return {
            "ending": [json.loads(event) for event in events if "error" in event] + events[-1:],
            "status": answer.status_code,
            "body": answer.json(),
            "exit": engine.process.wait(20),
        }

    simulated, real = engines.both(die)
    assert simulated == real
    assert (real["status"], real["ending"][-1]) == (500, "[DONE]")


def test_a_drain_finishes_what_runs_refuses_what_is_new_and_looks_healthy(narrow_engines: Pair) -> None:
    questions = {
        "chat": chat(""),
        "unknown model": chat("", model="other"),
        "models": Case("", "/v1/models", method="GET"),
        "metrics": Case("", "/metrics", method="GET"),
        "health": Case("", "/health", method="GET"),
    }

    def drain(engine: EngineProcess) -> dict[str, Any]:
        running = Stream(engine, max_tokens=LONG_CONTEXT - 100)
        assert running.started.wait(10)
        engine.process.terminate()
        refused = refusal_while_draining(lambda: ask(engine, text("", max_tokens=1), seconds=1))
        with ThreadPoolExecutor(len(questions)) as threads:
            answers = threads.map(lambda case: ask(engine, case).status_code, questions.values())
            states: dict[str, Any] = dict(zip(questions, answers, strict=True))
        states["ended during the checks"] = bool(running.events and running.events[-1] == "[DONE]")
        states["refused"] = (refused.status_code, refused.json(), told_headers(refused))
        return states | {"ending": running.end()[-1], "exit": engine.process.wait(30)}

    simulated, real = narrow_engines.both(drain)
    assert simulated == real
    assert real["refused"][0] == 500
    assert "cannot schedule new futures after shutdown" in real["refused"][1]["error"]["message"]
    assert (real["health"], real["ending"], real["ended during the checks"]) == (200, "[DONE]", False)


def refusal_while_draining(look: Callable[[], httpx.Response]) -> httpx.Response:
    """The first answer that is not a success, once the signal has arrived."""

    def refused() -> httpx.Response:
        try:
            response = look()
        except httpx.TimeoutException as error:  # it was faster than the signal, and would wait behind what runs
            raise NotYet("the engine still takes requests") from error
        if response.status_code == 200:
            raise NotYet("the engine still answers")
        return response

    return wait_until("the engine to refuse new requests", refused, seconds=5, every=0.05)
