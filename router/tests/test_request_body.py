"""Reading a request's body into what decisions need."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_router.openai_errors import Reason, Refused
from workslice_router.request_body import CHAT, COMPLETIONS, EMBEDDINGS, RequestView, read_request_body
from workslice_router.text_size import TextKind


def read(body: Any, endpoint: str = CHAT) -> RequestView:
    return read_request_body(body if isinstance(body, bytes) else json.dumps(body).encode(), endpoint)


def refused(body: Any, endpoint: str = CHAT) -> tuple[Reason, str]:
    with pytest.raises(Refused) as caught:
        read(body, endpoint)
    assert caught.value.refusal.status == 400
    return caught.value.refusal.reason, json.loads(caught.value.refusal.body)["error"]["message"]


def user(content: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": content}]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b'{"model":"tiny"',
        b'{"model":"tiny"} x',
        b'{"model":"a","model":"b"}',
        b'{"model":"a","metadata":{"k":1,"k":2}}',
        b'{"model":"a","temperature":NaN}',
        b'{"model":"\xff"}',
        b'{"model":"a","x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"model":"a","x":' + b'{"y":' * 10_000 + b"1" + b"}" * 10_000 + b"}",
        b'["model"]',
        b'"model"',
        b"null",
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_not_one_clean_json_object_is_refused(body: bytes) -> None:
    reason, message = refused(body)
    assert reason is Reason.INVALID_JSON
    assert "JSON object" in message


@pytest.mark.parametrize("body", [{}, {"model": None}, {"model": ""}])
def test_a_request_without_a_model_is_told_where_the_names_are(body: dict[str, Any]) -> None:
    reason, message = refused(body)
    assert reason is Reason.MISSING_MODEL
    assert "/v1/models" in message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", 5),
        ("model", "m" * 300),
        ("max_tokens", "10"),
        ("max_tokens", -1),
        ("max_tokens", True),
        ("max_completion_tokens", 1.5),
        ("max_tokens", 2**63),
        ("max_completion_tokens", 10**100),
        ("n", 10**9),
        ("stream", "yes"),
        ("messages", "hello"),
        ("messages", ["hello"]),
    ],
)
def test_a_field_of_the_wrong_type_is_named(field: str, value: Any) -> None:
    reason, message = refused({"model": "tiny", field: value})
    assert reason is Reason.INVALID_FIELD
    assert f"'{field}'" in message


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_number_as_large_as_engines_take_is_read(field: str) -> None:
    assert read({**user("x"), field: 2**63 - 1}).max_tokens == 2**63 - 1


def test_reads_what_decisions_need() -> None:
    got = read({**user("x" * 100), "stream": True, "max_tokens": 7, "n": 3, "stream_options": {"include_usage": True}})
    assert (got.model, got.stream, got.max_tokens, got.choices, got.include_usage) == ("tiny", True, 7, 3, True)
    assert 10 <= got.prompt_size <= 40


def test_max_completion_tokens_is_the_newer_name() -> None:
    assert read({**user("x"), "max_tokens": 5, "max_completion_tokens": 9}).max_tokens == 9


def test_no_bound_on_the_answer_is_not_a_bound_of_zero() -> None:
    assert read(user("x")).max_tokens is None
    assert read({**user("x"), "max_tokens": None}).max_tokens is None


def test_a_text_completion_is_short_when_nothing_else_is_said() -> None:
    assert read({"model": "tiny", "prompt": "x"}, COMPLETIONS).max_tokens == 16
    assert read({"model": "tiny", "prompt": "x", "max_tokens": None}, COMPLETIONS).max_tokens == 16
    assert read({"model": "tiny", "prompt": "x", "max_tokens": 900}, COMPLETIONS).max_tokens == 900


def test_parts_tools_and_tool_calls_count_as_prompt() -> None:
    plain = read(user("x" * 50)).prompt_size
    parts = read(user([{"type": "text", "text": "x" * 25}, {"type": "text", "text": "x" * 25}])).prompt_size
    assert parts == plain
    tool = {"type": "function", "function": {"name": "look", "parameters": {"description": "y" * 1000}}}
    assert read({**user("x" * 50), "tools": [tool]}).prompt_size > plain + 100
    called = {"role": "assistant", "tool_calls": [{"function": {"name": "look", "arguments": "y" * 1000}}]}
    assert read({"model": "tiny", "messages": [called]}).prompt_size > 100


def test_a_tool_is_measured_even_with_a_number_beyond_64_bits() -> None:
    body = b'{"model":"tiny","messages":[],"tools":[{"default":%s,"description":"%s"}]}' % (b"1" * 30, b"y" * 1000)
    assert read(body).prompt_size > 100


def test_images_and_sounds_are_counted_whatever_their_bytes() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000_000}}
    got = read(user([image, {"type": "text", "text": "what is it?"}, image]))
    assert got.media == 2
    assert got.prompt_size < 20


def test_every_message_has_a_frame_around_it() -> None:
    one, ten = ({"model": "tiny", "messages": [{"role": "user", "content": ""}] * count} for count in (1, 10))
    assert read(ten).prompt_size == 10 * read(one).prompt_size > 0


@pytest.mark.parametrize(
    ("prompt", "size", "tokens", "prompts"),
    [
        ("x" * 100, 14, 0, 1),
        (["x" * 100, "x" * 10], 14, 0, 2),
        ([1, 2, 3], 0, 3, 1),
        ([[1, 2, 3], [4]], 0, 3, 2),
        ([], 0, 0, 1),
        (None, 0, 0, 1),
    ],
)
def test_a_list_is_as_large_as_its_largest_prompt(prompt: Any, size: int, tokens: int, prompts: int) -> None:
    got = read({"model": "tiny", "prompt": prompt}, COMPLETIONS)
    assert (got.prompt_size, got.prompt_tokens, got.prompts) == (size, tokens, prompts)


def test_embeddings_have_a_prompt_but_no_answer() -> None:
    got = read({"model": "tiny", "input": ["x" * 40, "y" * 100], "stream": True}, EMBEDDINGS)
    assert (got.prompt_size, got.prompts, got.max_tokens, got.stream) == (14, 2, 0, False)


def test_says_what_kind_of_text_it_is() -> None:
    assert read(user("四个汉字")).kind is TextKind.CHINESE
    assert read(user("four words of English")).kind is TextKind.PROSE


def test_a_prompt_that_is_mostly_tools_is_of_their_kind() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"description": "y" * 1000}}}
    assert read({**user("x" * 50), "tools": [tool]}).kind is TextKind.TOOLS
    assert read({**user("x" * 5000), "tools": [tool]}).kind is TextKind.PROSE


def test_sees_what_makes_an_engines_counts_say_nothing_of_other_requests() -> None:
    assert not read(user("x")).truncates_prompt
    assert not read({**user("x"), "truncate_prompt_tokens": None}).truncates_prompt
    assert read({**user("x"), "truncate_prompt_tokens": -1}).truncates_prompt
    assert read({"model": "tiny", "input": "x", "truncate_prompt_tokens": 5}, EMBEDDINGS).truncates_prompt
    assert not read({**user("x"), "ignore_eos": False}).ignores_end
    assert read({**user("x"), "ignore_eos": True}).ignores_end


def test_sees_the_fields_that_clients_may_not_set() -> None:
    got = read(b'{"model":"tiny","cache_s\\u0061lt":"x","priority":-5}')
    assert got.has_cache_salt
    assert got.has_priority
    nested = read({**user("priority"), "metadata": {"priority": 1, "cache_salt": "x"}})
    assert not nested.has_cache_salt
    assert not nested.has_priority


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=10,
)


@given(
    st.dictionaries(
        st.sampled_from(
            ["model", "messages", "prompt", "input", "stream", "max_tokens", "n", "tools", "stream_options"]
        ),
        json_values,
    ),
    st.sampled_from([CHAT, COMPLETIONS, EMBEDDINGS]),
)
def test_any_json_is_read_or_refused_never_a_crash(body: dict[str, Any], endpoint: str) -> None:
    with contextlib.suppress(Refused):
        got = read(body, endpoint)
        assert got.prompt_size >= 0
        assert got.prompt_least >= 0
        assert got.choices >= 1
