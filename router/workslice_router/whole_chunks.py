"""Chunks of a body that come whole, as those of streams do: their payload without a parser of HTTP, and how a chunk is written. Pure."""

from typing import Final

_WRITTEN: Final = [b"%x" % size for size in range(1024)]
_SIZES: Final = {written: size for size, written in enumerate(_WRITTEN)}
"""Of chunks, as everybody writes them. Larger ones are no tokens, and a parser reads them as fast."""
_LONGEST_SIZE: Final = len(_WRITTEN[-1])
_MOST: Final = 4096
"""Of more bytes a parser in C is faster."""


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
        size = _SIZES.get(data[start:at])
        if size is None:
            return None
        end = at + 2 + size
        if data[end : end + 2] != b"\r\n":
            return None
        if size == 0:
            return (payload, True) if end + 2 == length else None
        piece = data[at + 2 : end]
        payload = payload + piece if payload else piece
        start = end + 2
    return payload, False


def chunk(payload: bytes) -> bytes:
    """A payload of at least a byte as a chunk."""
    size = len(payload)
    written = _WRITTEN[size] if size < len(_WRITTEN) else b"%x" % size
    return b"%b\r\n%b\r\n" % (written, payload)
