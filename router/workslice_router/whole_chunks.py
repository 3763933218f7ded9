"""Chunks of a body that come whole, as those of streams do: their payload without a parser of HTTP. Pure."""

from typing import Final

_MOST: Final = 4096
"""Of more bytes a parser in C is faster."""
_LONGEST_SIZE: Final = 4


def whole_chunks(data: bytes) -> tuple[bytes, bool] | None:
    """The payload of bytes that begin where a chunk does, and whether the body ends with them; None when they are not whole chunks as
    everybody writes them, without extensions and trailers.
    """
    length = len(data)
    if length > _MOST:
        return None
    payload = b""
    start = 0
    while start < length:
        at = data.find(b"\r\n", start, start + _LONGEST_SIZE + 2)
        if at < 0:
            return None
        digits = data[start:at]
        if not digits.isalnum():
            return None
        try:
            size = int(digits, 16)
        except ValueError:
            return None
        end = at + 2 + size
        if b"%x" % size != digits or data[end : end + 2] != b"\r\n":  # int takes more than HTTP does
            return None
        if size == 0:
            return (payload, True) if end + 2 == length else None
        piece = data[at + 2 : end]
        payload = payload + piece if payload else piece
        start = end + 2
    return payload, False
