"""Header lines of messages that look as they nearly always do, read once and remembered: the next message has mostly the same. Pure.

What a parser of HTTP would have to judge is not read here but left to it.
"""

import re
from typing import Final

_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([!-~](?:[\t -~]*[!-~])?)")
_LENGTH: Final = re.compile(rb"[0-9]{1,12}")
_UNUSUAL: Final = frozenset((b"content-encoding", b"expect", b"proxy-connection", b"upgrade"))
_SECRET: Final = re.compile(rb"auth|key|token|secret|passw|cookie|session|credential|jwt")
"""In a header's name: its value may be one that must not outlive its message in memory. Too many match rather than too few."""
_MOST_LINES: Final = 512
_LONGEST_LINE: Final = 256
"""Longer ones are read each time. Together at most a quarter of a megabyte is remembered."""


class HeaderLine:
    """What one line says."""

    __slots__ = ("chunked", "header", "length", "name", "passed")

    def __init__(self, name: bytes, value: bytes, passed: bytes) -> None:
        self.name = name
        """In lower case."""
        self.header = (name, value)
        self.passed = passed
        """As it goes on to the other side; empty when it stays here."""
        self.length = int(value) if name == b"content-length" else -1
        """Bytes of the body that it declares; -1: it is another header."""
        self.chunked = name == b"transfer-encoding"


class HeaderLines:
    """Reads the lines of one kind of message, of whose headers `dropped` and those with one of `own_prefixes` do not pass on."""

    def __init__(self, dropped: frozenset[bytes], own_prefixes: tuple[bytes, ...]) -> None:
        self._dropped = dropped
        self._own_prefixes = own_prefixes
        self._known: dict[bytes, HeaderLine] = {}

    def read(self, line: bytes) -> HeaderLine | None:
        """A line without its end; None when it is unusual."""
        known = self._known.get(line)
        if known is None:
            known = self._read(line)
            if known is not None and len(line) <= _LONGEST_LINE and _SECRET.search(known.name) is None:
                if len(self._known) >= _MOST_LINES:
                    self._known.clear()
                self._known[line] = known
        return known

    def _read(self, line: bytes) -> HeaderLine | None:
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        name, value = match[1].lower(), match[2]
        if name in _UNUSUAL or (name == b"content-length" and _LENGTH.fullmatch(value) is None):
            return None
        if (name == b"connection" and value.lower() != b"keep-alive") or (
            name == b"transfer-encoding" and value.lower() != b"chunked"
        ):
            return None
        stays = name in self._dropped or name.startswith(self._own_prefixes)
        return HeaderLine(name, value, b"" if stays else b"%b: %b\r\n" % (name, value))
