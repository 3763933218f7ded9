"""The simulated engine answers as real vLLM does: every case here asks both, and compares.

The simulator stands in for vLLM where dozens of replicas or exact faults are wanted; what it gets wrong would be learned as
truth by everything that is tested with it.
"""

import json
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from conformance_cases import ANSWERED, CHAT, QUESTION, REFUSED, TEXT, Case, ask, chat, told_headers
from conforming_engines import wide_engines
from engine_metrics_page import samples, value
from engine_processes import EngineProcess, Pair
from json_shape import shape
from raw_response import post_raw


@pytest.fixture
def engines() -> Pair:
    return wide_engines()


def document(response: httpx.Response) -> Any:
    return response.json() if response.content else None


@pytest.mark.parametrize("case", ANSWERED, ids=lambda case: case.what)
def test_an_answer_has_the_same_status_headers_and_fields(engines: Pair, case: Case) -> None:
    simulated, real = engines.both(lambda engine: ask(engine, case))
    assert (simulated.status_code, real.status_code) == (200, 200), (simulated.text, real.text)
    assert told_headers(simulated) == told_headers(real)
    assert shape(document(simulated)) == shape(document(real))


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.what)
def test_a_refusal_has_the_same_status_headers_and_words(engines: Pair, case: Case) -> None:
    simulated, real = engines.both(lambda engine: ask(engine, case))
    assert simulated.status_code == real.status_code >= 400, (simulated.text, real.text)
    assert told_headers(simulated) == told_headers(real)
    assert without_reader_s_words(document(simulated)) == without_reader_s_words(document(real)), (
        simulated.text,
        real.text,
    )


def without_reader_s_words(body: Any) -> Any:
    """An error without the words of the library that reads requests; vLLM's own words stay."""
    if body is not None and isinstance(body.get("error"), dict) and body["error"]["type"] == "Bad Request":
        return {"error": body["error"] | {"message": ""}}
    return body


STREAMS = {
    "chat": (CHAT, {"messages": QUESTION}),
    "chat of several answers": (CHAT, {"messages": QUESTION, "n": 2, "temperature": 1}),
    "text": (TEXT, {"prompt": "What comes next?"}),
    "echo": (TEXT, {"prompt": "What comes next?", "echo": True}),
    "several prompts": (TEXT, {"prompt": ["One", "two"]}),
}
TOKENS = 200
"""Enough that even an engine that gets no processor for a moment sends several events."""
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "usage": {"stream_options": {"include_usage": True}},
    "continuous usage": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("path", "body"), STREAMS.values(), ids=STREAMS)
def test_a_stream_has_the_same_head_framing_and_events(
    engines: Pair, path: str, body: dict[str, Any], options: dict[str, Any]
) -> None:
    whole = body | options | {"stream": True, "max_tokens": TOKENS, "ignore_eos": True}
    simulated, real = engines.both(lambda engine: post_raw(engine.url, path, whole))
    assert simulated.status_line == real.status_line == "HTTP/1.1 200 OK"
    assert simulated.headers | {"date": ""} == real.headers | {"date": ""}
    for response in (simulated, real):
        assert all(chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") for chunk in response.chunks)
        assert all(chunk.count(b"\n\n") == 1 for chunk in response.chunks), "an event is a chunk of its own"
        assert response.chunks[-1] == b"data: [DONE]\n\n"
    assert sequence_of_shapes(simulated.chunks) == sequence_of_shapes(real.chunks)


def sequence_of_shapes(chunks: list[bytes]) -> list[str]:
    """The shapes of a stream's events in their order, equal neighbours once. Which answer comes first is chance: they are sorted
    between the opening and the last event."""
    shapes = [repr(shape(json.loads(chunk.removeprefix(b"data: ")))) for chunk in chunks[:-1]]
    return [shapes[0], *sorted(set(shapes[1:-1])), shapes[-1]]


def test_a_stream_counts_the_same_tokens(engines: Pair) -> None:
    body = {"messages": QUESTION, "stream": True, "max_tokens": 12, "ignore_eos": True}
    body |= {"stream_options": {"include_usage": True}}
    for response in engines.both(lambda engine: post_raw(engine.url, CHAT, body)):
        usage = json.loads(response.chunks[-2].removeprefix(b"data: "))["usage"]
        assert usage["completion_tokens"] == 12
        assert usage["total_tokens"] == usage["prompt_tokens"] + 12


def test_a_request_id_becomes_the_id_of_the_answer(engines: Pair) -> None:
    case = chat("")._replace(headers={"x-request-id": "mine"})
    assert engines.both(lambda engine: ask(engine, case).json()["id"]) == ("chatcmpl-mine",) * 2


def test_metrics_have_the_same_names_labels_and_buckets(engines: Pair) -> None:
    engines.both(lambda engine: ask(engine, chat("")))
    simulated, real = engines.both(lambda engine: set(samples(engine)))
    assert simulated == real, (sorted(real - simulated), sorted(simulated - real))


def test_label_values_of_the_metrics_that_routers_and_operator_read_are_the_same(engines: Pair) -> None:
    def labels(engine: EngineProcess) -> set[tuple[str, str]]:
        with engine.client() as client:
            families = text_string_to_metric_families(client.get("/metrics").text)
        read = ("vllm:num_requests", "vllm:kv_cache_usage", "vllm:request_success", "vllm:admission")
        found = {(s.name, str(sorted(s.labels.items()))) for family in families for s in family.samples}
        return {one for one in found if one[0].startswith(read)}

    simulated, real = engines.both(labels)
    assert simulated == real
    sizes = engines.both(cache_size)
    assert sizes[0] == sizes[1]


def cache_size(engine: EngineProcess) -> dict[str, str]:
    with engine.client() as client:
        families = text_string_to_metric_families(client.get("/metrics").text)
    labels = next(s.labels for family in families for s in family.samples if s.name == "vllm:cache_config_info")
    return {name: labels[name] for name in ("block_size", "enable_prefix_caching", "kv_cache_memory_bytes")}


def test_an_answer_moves_the_same_counters_by_as_much(engines: Pair) -> None:
    def moved(engine: EngineProcess) -> dict[str, float]:
        names = ("generation_tokens_total", "request_success_total", "request_generation_tokens_count")
        before = {name: value(engine, name) for name in names}
        ask(engine, chat("", max_tokens=7, n=2, temperature=1))
        return {name: value(engine, name) - before[name] for name in names}

    simulated, real = engines.both(moved)
    assert (
        simulated
        == real
        == {
            "generation_tokens_total": 14,
            "request_success_total": 2,
            "request_generation_tokens_count": 2,
        }
    )
