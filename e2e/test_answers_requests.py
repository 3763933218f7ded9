"""Requests get answers from the right pool, from the host and from a pod, under every name, streaming and not."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from demo.question import LONG_QUESTION, SHORT_QUESTION, ask

from client_pod import run_in_pod
from installed import MODEL, Installation

IN_POD = """
import sys
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
messages = [{"role": "user", "content": "What is the capital of France?"}]
whole = client.chat.completions.create(model="tiny", messages=messages, max_tokens=8)
parts = list(client.chat.completions.create(model="tiny", messages=messages, max_tokens=8, stream=True))
print(f"whole={whole.choices[0].finish_reason} streamed={parts[-1].choices[0].finish_reason} parts={len(parts) > 2}")
"""


@pytest.mark.parametrize("stream", [False, True], ids=["in one piece", "streaming"])
def test_a_short_prompt_is_answered_by_the_short_pool(pools: Installation, stream: bool) -> None:
    answer = ask(pools.client(), MODEL, SHORT_QUESTION, stream=stream)
    assert (answer.request_class, answer.pool) == ("short", "demo/short")
    assert answer.replica
    assert answer.completion_tokens > 0
    assert answer.finish_reason in ("stop", "length")


@pytest.mark.parametrize("stream", [False, True], ids=["in one piece", "streaming"])
def test_a_long_prompt_is_answered_by_the_long_pool(pools: Installation, stream: bool) -> None:
    answer = ask(pools.client(), MODEL, LONG_QUESTION, stream=stream)
    assert (answer.request_class, answer.pool) == ("long", "demo/long")
    assert answer.prompt_tokens > 1000


def test_an_answer_that_might_outgrow_the_short_context_goes_to_the_long_pool(pools: Installation) -> None:
    """The short pool's engines hold 2048 tokens, and they would cut the answer without a word."""
    assert ask(pools.client(), MODEL, SHORT_QUESTION, stream=False, max_tokens=2040).pool == "demo/long"


def test_the_class_header_chooses_the_pool(pools: Installation) -> None:
    headers = {"x-workslice-class": "long"}
    assert ask(pools.client(), MODEL, SHORT_QUESTION, stream=False, extra_headers=headers).pool == "demo/long"


def test_the_model_name_may_carry_the_class(pools: Installation) -> None:
    answer = ask(pools.client(), f"{MODEL}@long", SHORT_QUESTION, stream=False, max_tokens=4)
    assert (answer.request_class, answer.pool) == ("long", "demo/long")


@pytest.mark.parametrize(("name", "context"), [("short", "2048"), ("long", "8192")])
def test_every_answer_says_how_many_tokens_its_pool_holds(pools: Installation, name: str, context: str) -> None:
    body = {"model": f"{MODEL}@{name}", "prompt": "Once upon a time", "max_tokens": 2}
    answer = httpx.post(f"{pools.url}/completions", json=body, timeout=60, trust_env=False)
    assert (answer.status_code, answer.headers["x-workslice-context-limit"]) == (200, context)


def test_every_name_in_the_model_list_answers(pools: Installation) -> None:
    names = [model.id for model in pools.client().models.list()]
    assert {MODEL, f"{MODEL}-latest", "gpt-4o-mini"} <= set(names)
    for name in (MODEL, f"{MODEL}-latest", "gpt-4o-mini"):
        assert ask(pools.client(), name, SHORT_QUESTION, stream=False, max_tokens=4).completion_tokens > 0


def test_completions_answer_too(pools: Installation) -> None:
    answer = pools.client().completions.create(model=MODEL, prompt="Once upon a time", max_tokens=8)
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_log_probabilities_are_answered_and_the_engine_lives_on(pools: Installation) -> None:
    messages: Any = [{"role": "user", "content": SHORT_QUESTION}]
    wanted: Any = {"logprobs": True, "top_logprobs": 5, "max_tokens": 4}
    for _ in range(2):
        answer = pools.client().chat.completions.create(model=MODEL, messages=messages, **wanted)
        assert answer.choices[0].logprobs is not None
        assert len((answer.choices[0].logprobs.content or [])[0].top_logprobs) == 5


def test_the_request_id_of_the_client_comes_back(pools: Installation) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    headers = {"x-request-id": "e2e-answers-1"}
    answer = httpx.post(f"{pools.url}/chat/completions", json=body, headers=headers, timeout=60, trust_env=False)
    assert answer.status_code == 200
    assert answer.headers["x-request-id"] == "e2e-answers-1"
    assert int(answer.headers["x-workslice-queue-ms"]) >= 0


def test_twenty_parallel_streams_all_end_with_done(pools: Installation) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 32, "stream": True}

    def last_event(_: int) -> tuple[int, str]:
        with httpx.stream("POST", f"{pools.url}/chat/completions", json=body, timeout=120, trust_env=False) as answer:
            lines = [line for line in answer.iter_lines() if line]
        return answer.status_code, lines[-1]

    with ThreadPoolExecutor(20) as workers:
        endings = list(workers.map(last_event, range(20)))
    assert endings == [(200, "data: [DONE]")] * 20


@pytest.mark.embedded  # the pod mounts a folder of this machine
def test_the_snippet_of_the_readme_works_in_a_pod(pools: Installation) -> None:
    snippet = (Path(__file__).parents[1] / "README.md").read_text().split("```python\n")[1].split("```")[0]
    assert 'model="tiny"' in snippet
    run_in_pod(pools.cluster, pools.images.router, snippet)


@pytest.mark.embedded  # the pod mounts a folder of this machine
def test_the_openai_client_in_a_pod_gets_answers(pools: Installation) -> None:
    said = run_in_pod(pools.cluster, pools.images.router, IN_POD, "http://workslice.workslice-system/v1")
    assert said.startswith("whole=")
    assert said.endswith("parts=True")
