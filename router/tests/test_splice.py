"""Editing top-level members in the raw bytes of a request."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_router.request_body import CHAT, read_request_body
from workslice_router.splice import member, put_max_tokens, splice, upstream_body

SPECIAL_KEYS = ["model", "cache_salt", "priority"]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(SPECIAL_KEYS) | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)
spaces = st.text(alphabet=" \t\r\n", max_size=3)


@st.composite
def spelled_key(draw: st.DrawFn, key: str) -> str:
    """The key as JSON may spell it: some of its characters as \\u escapes."""
    spelled = json.dumps(key)[1:-1] if not key.isascii() or draw(st.booleans()) else None
    if spelled is not None:
        return f'"{spelled}"'
    return (
        '"'
        + "".join(
            f"\\u{ord(c):04x}" if draw(st.booleans()) else json.dumps(c, ensure_ascii=draw(st.booleans()))[1:-1]
            for c in key
        )
        + '"'
    )


@st.composite
def json_objects(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """An object in some legal spelling, and its meaning."""
    keys = draw(st.lists(st.sampled_from(SPECIAL_KEYS) | st.text(max_size=8), unique=True, max_size=7))
    meaning = {key: draw(json_values) for key in keys}
    members = [
        draw(spaces)
        + draw(spelled_key(key))
        + draw(spaces)
        + ":"
        + draw(spaces)
        + json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 2])))
        + draw(spaces)
        for key, value in meaning.items()
    ]
    text = draw(spaces) + "{" + ",".join(members) + ("" if members else draw(spaces)) + "}" + draw(spaces)
    return text.encode("utf-8", "surrogatepass"), meaning


@given(json_objects(), st.text(st.characters(codec="utf-8")), st.sets(st.sampled_from(["cache_salt", "priority"])))
def test_the_edited_bytes_mean_the_edited_object(
    drawn: tuple[bytes, dict[str, Any]], model: str, remove: set[str]
) -> None:
    body, meaning = drawn
    try:
        body.decode()
    except UnicodeDecodeError:
        return  # lone surrogates are refused before this step
    expected = {key: value for key, value in meaning.items() if key not in remove}
    if "model" in expected:
        expected["model"] = model
    assert json.loads(splice(body, model=model, remove=remove)) == expected


@given(json_objects(), st.sets(st.sampled_from(["cache_salt", "priority"])))
def test_the_order_and_spelling_of_other_members_stay(drawn: tuple[bytes, dict[str, Any]], remove: set[str]) -> None:
    body, meaning = drawn
    try:
        body.decode()
    except UnicodeDecodeError:
        return
    edited = splice(body, model=None, remove=remove)
    if not remove & meaning.keys():
        assert edited == body
    rest = iter(body)
    assert all(byte in rest for byte in edited), "what is left must be a subsequence of what came"
    assert list(json.loads(edited)) == [key for key in meaning if key not in remove]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"a","x":1}', b'{"model":"real","x":1}'),
        (b'{ "model" : "a" }', b'{ "model" : "real" }'),
        (b'{"mod\\u0065l":"a"}', b'{"mod\\u0065l":"real"}'),
        (b'{"x":{"model":"in"},"model":"a"}', b'{"x":{"model":"in"},"model":"real"}'),
        (b'{"x":"\\"model\\":\\"no\\"","model":"a"}', b'{"x":"\\"model\\":\\"no\\"","model":"real"}'),
        (b'{"cache_salt":"s","model":"a"}', b'{"model":"real"}'),
        (b'{"model":"a", "cache_salt":"s"}', b'{"model":"real"}'),
        (b'{"model":"a","priority":-1,"x":[1,{"priority":2}]}', b'{"model":"real","x":[1,{"priority":2}]}'),
        (b'{"priority":1,"cache_salt":"s","model":"a","x":1.5e3}', b'{"model":"real","x":1.5e3}'),
        (b'{"model":"a","cache_salt":"s","priority":1}', b'{"model":"real"}'),
    ],
)
def test_replaces_and_removes_only_top_level_members(body: bytes, expected: bytes) -> None:
    assert splice(body, model="real", remove=("cache_salt", "priority")) == expected


def test_a_body_that_needs_no_edit_is_the_same_object() -> None:
    body = b'{"model":"tiny","messages":[{"role":"user","content":"priority"}]}'
    assert upstream_body(body, read_request_body(body, CHAT), "tiny", 0) is body


def test_the_class_priority_takes_the_place_of_the_clients() -> None:
    body = b' {"model":"alias","priority":-1000,"cache_salt":"theirs","messages":[]}'
    sent = upstream_body(body, read_request_body(body, CHAT), "tiny", 10)
    assert sent == b' {"priority":10,"model":"tiny","messages":[]}'


names = st.sampled_from(["max_tokens", "max_completion_tokens", "model", "x", "messages"])
values = st.none() | st.integers(-5, 5000) | st.text('a"\\{}', max_size=5) | st.lists(st.integers(0, 9), max_size=2)


@given(st.dictionaries(names, values, max_size=5), st.integers(1, 1000), st.sampled_from([None, 1]))
def test_a_bound_is_put_into_any_body_and_nothing_else_changes(
    members: dict[str, Any], most: int, indent: int | None
) -> None:
    document = {"model": "tiny", **members}
    changed = json.loads(put_max_tokens(json.dumps(document, indent=indent).encode(), most))
    kept = {name: value for name, value in document.items() if name not in ("max_tokens", "max_completion_tokens")}
    assert changed == {**kept, "max_tokens": most}


def test_a_member_is_found_at_the_top_only() -> None:
    body = b'{"a": {"min_tokens": 1}, "b": "\\"min_tokens\\": 2", "min_tokens" : 30 }'
    assert member(body, "min_tokens") == b"30"
    assert member(body, "max_tokens") is None
