"""Requests that cannot be served get a clear error in OpenAI shape, and none of them disturbs the next one."""

import json

import httpx
import pytest
from demo.question import SHORT_QUESTION, ask

from installed import MODEL, Installation

CHAT = "/v1/chat/completions"
GOOD = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
MEBIBYTE = 1024 * 1024

BAD_BODIES = {
    "malformed JSON": (b'{"model": "tiny", "messages": [', 400, "JSON"),
    "no object": (b"[1, 2]", 400, "object"),
    "no model": (json.dumps({"messages": GOOD["messages"]}).encode(), 400, "model"),
    "an unknown model": (json.dumps(GOOD | {"model": "gpt-99"}).encode(), 404, "gpt-99"),
    "larger than any context": (json.dumps(GOOD | {"max_tokens": 50_000}).encode(), 400, "8192"),
    "larger than the body limit": (b'{"model": "tiny", "padding": "' + b"x" * (33 * MEBIBYTE) + b'"}', 413, "33554432"),
}


def openai_error(answer: httpx.Response) -> str:
    """Return the message of an error; every error must have the four fields of the OpenAI API."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return str(error["message"])


@pytest.mark.parametrize(("body", "status", "word"), BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_bad_body_is_refused_with_a_clear_message(pools: Installation, body: bytes, status: int, word: str) -> None:
    headers = {"content-type": "application/json"}
    answer = httpx.post(f"{pools.origin}{CHAT}", content=body, headers=headers, timeout=60, trust_env=False)
    assert answer.status_code == status
    assert word in openai_error(answer)


def test_an_unknown_class_is_refused_with_the_list_of_classes(pools: Installation) -> None:
    headers = {"x-workslice-class": "huge"}
    answer = httpx.post(f"{pools.origin}{CHAT}", json=GOOD, headers=headers, timeout=60, trust_env=False)
    assert answer.status_code == 400
    message = openai_error(answer)
    assert "short" in message
    assert "long" in message


def test_a_wrong_method_is_answered_with_the_allowed_ones(pools: Installation) -> None:
    answer = httpx.get(f"{pools.origin}{CHAT}", timeout=60, trust_env=False)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    openai_error(answer)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "path",
    [
        *("/sleep", "/wake_up", "/collective_rpc", "/metrics", "/health", "/version", "/v1/load_lora_adapter"),
        *("//metrics", "/v1/%2e%2e/metrics", "/v1/chat/completions/../../../metrics", "/v1%2fchat%2fcompletions"),
    ],
)
def test_paths_that_are_not_of_the_openai_api_never_reach_an_engine(
    pools: Installation, method: str, path: str
) -> None:
    # httpx would tidy the path before it is sent; the raw one is what an attacker sends.
    url = httpx.URL(pools.origin).copy_with(raw_path=path.encode())
    answer = httpx.request(method, url, timeout=60, trust_env=False)
    assert answer.status_code == 404
    assert "x-workslice-replica" not in answer.headers
    openai_error(answer)


def test_what_the_engine_refuses_comes_back_as_the_engine_said_it(pools: Installation) -> None:
    answer = httpx.post(f"{pools.origin}{CHAT}", json=GOOD | {"temperature": 9}, timeout=60, trust_env=False)
    assert answer.status_code == 400
    assert "temperature" in openai_error(answer)


def test_a_client_that_leaves_takes_its_request_with_it(pools: Installation) -> None:
    body = GOOD | {"stream": True, "max_tokens": 900, "ignore_eos": True}
    with httpx.stream("POST", f"{pools.origin}{CHAT}", json=body, timeout=60, trust_env=False) as answer:
        assert answer.status_code == 200
        next(answer.iter_lines())
    assert ask(pools.client(), MODEL, SHORT_QUESTION, stream=False).finish_reason


def test_a_good_request_is_answered_after_all_the_bad_ones(pools: Installation) -> None:
    assert ask(pools.client(), MODEL, SHORT_QUESTION, stream=True).pool == "demo/short"
