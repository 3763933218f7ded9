"""Whether a body's JSON has so many parts that parsing it would cost far more memory and time than its bytes suggest. Pure.

A parser makes an object of 60 bytes and more from each `[]`: 32 MiB of brackets are a gigabyte and many seconds in which no other
request moves. What requests really carry is long text, which costs its length.
"""

from typing import Final

MOST_CONTAINERS: Final = 100_000
"""Objects and arrays."""
MOST_STRINGS: Final = 200_000
"""Keys and strings."""
MOST_VALUES: Final = 1_000_000
"""Values of any kind: a prompt of a million token numbers still passes."""


def has_too_many_parts(body: bytes) -> bool:
    """Whether a body (valid JSON or not) has more parts than the limits above. Commas and brackets inside strings do not count."""
    if len(body) <= MOST_CONTAINERS:
        return False
    if _up_to_the_most(body, b",") + _up_to_the_most(body, b"[") + _up_to_the_most(body, b"{") <= MOST_CONTAINERS:
        return False  # nearly always: with so few of them, text included, there cannot be more parts
    plain = without_escapes(body)
    if plain.count(b'"') > 2 * MOST_STRINGS:
        return True
    outside = without_strings(plain)
    return outside.count(b"[") + outside.count(b"{") > MOST_CONTAINERS or outside.count(b",") > MOST_VALUES


def without_escapes(body: bytes) -> bytes:
    """JSON in which every quote that is left begins or ends a string."""
    return body.replace(b"\\\\", b"").replace(b'\\"', b"")


def without_strings(plain: bytes) -> bytes:
    """What stands between the strings of JSON without escapes."""
    return b"".join(plain.split(b'"')[::2])


def _up_to_the_most(body: bytes, byte: bytes) -> int:
    """How often a byte occurs, counted no further than needed. `bytes.count` looks at every byte by itself, which takes ten times as
    long as to search for the few that there are.
    """
    return len(body) - len(body.replace(byte, b"", MOST_CONTAINERS + 1))
