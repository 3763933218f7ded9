"""Edits a few top-level members of a JSON object in its raw bytes, so that everything else reaches the engine as the client sent it."""

import re
from collections.abc import Collection, Iterator
from typing import Final

import orjson

from workslice_router.request_body import RequestView

_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STRING_OR_BRACKET: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]]', re.DOTALL)
_SCALAR: Final = re.compile(rb"[^,\]} \t\r\n]++")


def upstream_body(body: bytes, view: RequestView, model: str, priority: int) -> bytes:
    """The body for an engine that knows its model as `model`; the very same object when nothing must change.

    Clients may set neither `cache_salt` (it would let them into another tenant's prefix cache) nor `priority` (the request class
    decides it): both go. A class with a priority other than 0 writes its own.
    """
    unwanted = [key for key, sent in (("cache_salt", view.has_cache_salt), ("priority", view.has_priority)) if sent]
    if view.model != model or unwanted:
        body = splice(body, model=model if view.model != model else None, remove=unwanted)
    if priority == 0:
        return body
    start = body.index(b"{") + 1
    return b'%b"priority":%d,%b' % (body[:start], priority, body[start:])


def splice(body: bytes, *, model: str | None, remove: Collection[str]) -> bytes:
    """`body` (one valid JSON object without duplicate keys) with the value of its top-level `model` replaced, unless None, and its
    top-level members `remove` gone, each with one comma. Every other byte stays.
    """
    wanted = len(remove) + (model is not None)
    pieces: list[bytes] = []
    settled = 0  # bytes before this offset are in `pieces`, or gone
    previous_end = 0
    dropping_from: int | None = None  # members at the front go together with what lies between them and the next one
    one_stays = False
    for key, start, value, end in _members(body):
        if dropping_from is not None:
            pieces.append(body[settled:dropping_from])
            settled, dropping_from = start, None
            wanted -= 1
        if not wanted:
            break
        if key in remove:
            if one_stays:
                pieces.append(body[settled:previous_end])
                settled = end
                wanted -= 1
            else:
                dropping_from = start
        else:
            one_stays = True
            if key == "model" and model is not None:
                pieces += (body[settled:value], orjson.dumps(model))
                settled = end
                wanted -= 1
        previous_end = end
    if dropping_from is not None:
        pieces.append(body[settled:dropping_from])
        settled = previous_end
    pieces.append(body[settled:])
    return b"".join(pieces)


def member(body: bytes, key: str) -> bytes | None:
    """The value of a top-level member as it is written; None when there is none."""
    return next((body[value:end] for name, _, value, end in _members(body) if name == key), None)


def put_max_tokens(body: bytes, most: int) -> bytes:
    """`body` with an answer of at most `most` tokens, whichever of the two names of that bound it used."""
    rest = splice(body, model=None, remove=("max_tokens", "max_completion_tokens"))
    start = rest.index(b"{") + 1
    return b'%b"max_tokens":%d,%b' % (rest[:start], most, rest[start:])


def _members(body: bytes) -> Iterator[tuple[str, int, int, int]]:
    """Key of every top-level member, and where its key starts, its value starts and its value ends."""
    position = body.index(b"{") + 1
    while True:
        key = _STRING.match(body, _skip_space(body, position))
        if key is None:
            return
        value = _skip_space(body, _skip_space(body, key.end()) + 1)
        end = _value_end(body, value)
        yield orjson.loads(key.group()), key.start(), value, end
        position = _skip_space(body, end) + 1


def _skip_space(body: bytes, position: int) -> int:
    match = _SPACE.match(body, position)
    assert match is not None
    return match.end()


def _value_end(body: bytes, start: int) -> int:
    first = body[start]
    if first == 0x22:
        string = _STRING.match(body, start)
        assert string is not None
        return string.end()
    if first not in b"{[":
        scalar = _SCALAR.match(body, start)
        assert scalar is not None
        return scalar.end()
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(body, start):
        character = body[token.start()]
        if character in b"{[":
            depth += 1
        elif character in b"}]":
            depth -= 1
            if depth == 0:
                return token.end()
    raise ValueError("not a valid JSON object")
