"""A body that would cost far more to parse than its bytes say is refused before it is parsed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_router.json_structure import has_too_many_parts, without_escapes, without_strings
from workslice_router.openai_errors import Reason, Refused
from workslice_router.request_body import CHAT, read_request_body

HEAD = b'{"model":"tiny","x":['
DEEP = b"[" * 190 + b"]" * 190 + b","
MANY = {
    "arrays": b"[]," * 200_000,
    "objects": b"{}," * 200_000,
    "nests": DEEP * 600,
    "strings": b'"a",' * 300_000,
    "keys": b"{" + b",".join(b'"%x":1' % number for number in range(300_000)) + b"},",
    "numbers": b"1," * 1_100_000,
    "arrays behind a quote that is escaped": b'"\\"",' + b"[]," * 200_000,
    "arrays behind a backslash that is escaped": b'"\\\\",' + b"[]," * 200_000,
}
FEW = {
    "long text": b'"' + b"a, b [c] {d} " * 100_000 + b'"',
    "long text of JSON": json.dumps('{"a":[1,{"b":"\\\\"}],' * 50_000).encode(),
    "token numbers": b",".join(b"%d" % number for number in range(900_000)),
    "messages": b",".join([b'{"role":"user","content":"a"}'] * 40_000),
}


@pytest.mark.parametrize("parts", MANY.values(), ids=MANY.keys())
def test_a_body_of_very_many_parts_is_refused_and_told_so(parts: bytes):
    body = HEAD + parts + b"0]}"
    json.loads(body)
    with pytest.raises(Refused) as caught:
        read_request_body(body, CHAT)
    assert caught.value.refusal.reason is Reason.BODY_TOO_COMPLEX
    assert caught.value.refusal.status == 400


@pytest.mark.parametrize("parts", FEW.values(), ids=FEW.keys())
def test_a_large_body_of_ordinary_content_is_read(parts: bytes):
    assert read_request_body(HEAD + parts + b"]}", CHAT).model == "tiny"


def bare(value: Any) -> str:
    """JSON of a value whose strings are left out."""
    if isinstance(value, str):
        return ""
    if isinstance(value, list):
        return "[" + ",".join(map(bare, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(":" + bare(item) for item in value.values()) + "}"
    return json.dumps(value)


TEXT = st.text(st.sampled_from(['"', "\\", "[", "{", ",", "a", "é", "\n"]), max_size=8)
ANY_JSON = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(ANY_JSON, st.booleans())
def test_only_what_stands_outside_strings_counts(value: Any, ascii_only: bool):
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only).encode()
    assert without_strings(without_escapes(body)).decode() == bare(value)


@given(st.binary(max_size=100))
def test_no_bytes_are_too_strange_to_count(body: bytes):
    assert not has_too_many_parts(body)
