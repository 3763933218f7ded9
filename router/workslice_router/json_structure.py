"""Whether a body's JSON has so many parts that parsing it would cost far more memory and time than its bytes suggest. Pure.

A parser makes an object of 60 bytes and more from each `[]`: 32 MiB of brackets are a gigabyte and many seconds in which no other
request moves. What requests really carry is long text, which costs its length.
"""

from typing import Final

from workslice_router.openai_errors import Reason, Refusal, refusal

MOST_CONTAINERS: Final = 100_000
"""Objects and arrays."""
MOST_STRINGS: Final = 200_000
"""Keys and strings."""
MOST_VALUES: Final = 1_000_000
"""Values of any kind: a prompt of a million token numbers still passes."""
_MOST_QUOTES: Final = 2 * MOST_STRINGS
LARGE: Final = 4 * 2**20
"""A body of more bytes is counted as it comes, so that no step of it holds up other requests for long."""


class PartsCount:
    """Counts the parts of a body (valid JSON or not) that comes in pieces. Commas and brackets inside strings do not count."""

    __slots__ = ("_commas", "_containers", "_in_string", "_quotes", "_rest_of_escape")

    def __init__(self) -> None:
        self._containers = self._quotes = self._commas = 0
        self._in_string = self._rest_of_escape = False

    def add(self, piece: bytes) -> None:
        """Take in the next piece."""
        if not piece:
            return
        plain = without_escapes(piece[1:] if self._rest_of_escape else piece)
        self._rest_of_escape = plain.endswith(b"\\")
        between = plain.split(b'"', _MOST_QUOTES + 1)
        quotes = len(between) - 1
        self._quotes += quotes
        if self._quotes > _MOST_QUOTES:
            return  # that is enough to know
        outside = b"".join(between[1 if self._in_string else 0 :: 2])
        self._in_string ^= quotes % 2 == 1
        self._containers += outside.count(b"[") + outside.count(b"{")
        self._commas += outside.count(b",")

    @property
    def too_many(self) -> bool:
        """Whether there are more than the limits above by now."""
        return self._quotes > _MOST_QUOTES or self._containers > MOST_CONTAINERS or self._commas > MOST_VALUES


def has_too_many_parts(body: bytes) -> bool:
    """Whether a whole body has more parts than the limits above."""
    if len(body) <= MOST_CONTAINERS:
        return False
    if sum(_up_to_the_most(body, byte) for byte in (b",", b"[", b"{")) <= MOST_CONTAINERS:
        return False  # nearly always: with so few of them, text included, there cannot be more parts
    count = PartsCount()
    count.add(body)
    return count.too_many


def too_many_parts() -> Refusal:
    """What to answer then."""
    return refusal(Reason.BODY_TOO_COMPLEX, containers=MOST_CONTAINERS, strings=MOST_STRINGS, values=MOST_VALUES)


def without_escapes(body: bytes) -> bytes:
    """JSON in which every quote that is left begins or ends a string."""
    return body.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in body else body


def _up_to_the_most(body: bytes, byte: bytes) -> int:
    """How often a byte occurs, counted no further than needed. `bytes.count` looks at every byte by itself, which takes ten times as
    long as to search for the few that there are.
    """
    return len(body) - len(body.replace(byte, b"", MOST_CONTAINERS + 1))
