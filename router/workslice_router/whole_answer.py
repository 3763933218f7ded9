"""Whether an answer in JSON is all there, where the framing does not tell: an engine may be wrong about an answer's length, or say nothing
of it and close the connection. Pure.
"""

from typing import Final

import orjson

MOST_HELD: Final = 8 * 2**20
"""Bytes of an answer without a length, which the client gets when it is known to be whole."""


def is_json(content_type: bytes | None) -> bool:
    """Whether a response of this type is JSON."""
    return content_type is not None and content_type.lower().startswith(b"application/json")


def may_end(tail: bytes) -> bool:
    """Whether an object may end with these bytes."""
    return tail.endswith(b"}") or tail.rstrip().endswith(b"}")


def is_whole(body: bytes) -> bool:
    """Whether this is an object, from its first byte to its last."""
    try:
        return isinstance(orjson.loads(body), dict)
    except orjson.JSONDecodeError:
        return False
