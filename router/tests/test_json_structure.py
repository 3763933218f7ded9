"""A body that would cost far more to parse than its bytes say is refused before it is parsed."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from router_under_test import post

from workslice_router.api_keys import ApiKeys
from workslice_router.json_structure import LARGE, PartsCount, has_too_many_parts
from workslice_router.openai_errors import Reason, Refused
from workslice_router.request_body import CHAT, read_request_body
from workslice_router.request_reader import RequestReader

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


@pytest.mark.parametrize("parts", [*MANY.values(), b'"' + b"," * (2 * LARGE) + b'",' + b"[]," * 200_000])
@pytest.mark.parametrize("piece", [1 << 16, 99_991])
def test_a_large_body_of_very_many_parts_is_refused_while_it_comes(parts: bytes, piece: int):
    body = HEAD + b'"' + b'a\\",' * (LARGE // 3) + b'",' + parts + b"0]}"
    reader = RequestReader(ApiKeys(None), 10 * LARGE)
    sent = post(body)
    for start in range(0, len(sent), piece):
        reader.feed(sent[start : start + piece], 0.0)
    (request,) = reader.ready
    assert request.refusal is not None
    assert request.refusal.reason is Reason.BODY_TOO_COMPLEX
    assert reader.ended


def test_a_large_body_of_ordinary_content_is_read_while_it_comes():
    body = HEAD + b'"' + b'a\\", b [c] {d} ' * (LARGE // 8) + b'"]}'
    reader = RequestReader(ApiKeys(None), 10 * LARGE)
    sent = post(body)
    for start in range(0, len(sent), 1 << 16):
        reader.feed(sent[start : start + (1 << 16)], 0.0)
    (request,) = reader.ready
    assert (request.refusal, request.body) == (None, body)
    assert request.parts_count is not None


def parts_of(value: Any) -> tuple[int, int, int]:
    """Strings and keys, containers, and commas between values."""
    if isinstance(value, str):
        return 1, 0, 0
    if not isinstance(value, list | dict):
        return 0, 0, 0
    inner = [parts_of(one) for one in (value.values() if isinstance(value, dict) else value)]
    keys = len(value) if isinstance(value, dict) else 0
    strings, containers, commas = (sum(one[index] for one in inner) for index in range(3))
    return strings + keys, containers + 1, commas + max(0, len(value) - 1)


TEXT = st.text(st.sampled_from(['"', "\\", "[", "{", ",", "a", "é", "\n"]), max_size=8)
ANY_JSON = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(ANY_JSON, st.booleans(), st.lists(st.integers(0, 200), max_size=6))
def test_only_what_stands_outside_strings_counts_however_the_bytes_are_split(
    value: Any, ascii_only: bool, cuts: list[int]
):
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only).encode()
    count, places = PartsCount(), [0, *sorted(cuts), len(body) + 200]
    for start, end in itertools.pairwise(places):
        count.add(body[start:end])
    strings, containers, commas = parts_of(value)
    assert (count._quotes, count._containers, count._commas) == (2 * strings, containers, commas)


@given(st.binary(max_size=100))
def test_no_bytes_are_too_strange_to_count(body: bytes):
    assert not has_too_many_parts(body)
