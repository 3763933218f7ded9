"""JSON of API objects, as deep as anybody may nest them: the API stores 10,000 levels, orjson reads 1,024 and writes 254. What lies deeper
than any field reaches is read and written as null, so that one object of anybody never stops the reading of all.
"""

import re
from typing import Any, Final

import orjson

_DEEPEST: Final = 200
"""Levels that are left where there are too many."""
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


def loads(text: bytes) -> Any:
    """The document; raises orjson.JSONDecodeError (a ValueError) when it is none."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.loads(_without_depths(text))


def dumps(document: Any) -> bytes:
    """The text of what `loads` or the API gave."""
    try:
        return orjson.dumps(document)
    except TypeError:
        return orjson.dumps(_of_levels(document, _DEEPEST))


def _of_levels(value: Any, levels: int) -> Any:
    if isinstance(value, dict):
        return {name: _of_levels(one, levels - 1) for name, one in value.items()} if levels else None
    if isinstance(value, list):
        return [_of_levels(one, levels - 1) for one in value] if levels else None
    return value


def _without_depths(text: bytes) -> bytes:
    kept, copied, depth = [], 0, 0
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        if mark in b"[{":
            depth += 1
            if depth == _DEEPEST + 1:
                kept.append(text[copied : token.start()])
        elif mark in b"]}":
            if depth == _DEEPEST + 1:
                kept.append(b"null")
                copied = token.end()
            depth -= 1
    return b"".join((*kept, text[copied:])) if depth == 0 else text
