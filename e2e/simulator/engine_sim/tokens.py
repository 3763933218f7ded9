"""Text as tokens and back, without a vocabulary: a token is a short piece of text, and its number spells the piece."""

import re
from collections.abc import Iterable
from typing import Final

END_OF_TEXT: Final = 0
"""The token with which the model ends its answer; it has no text."""
# A leading space belongs to the word after it, long words fall into pieces, and scripts without spaces take a token a character:
# about four characters of English prose a token, one of Chinese, as tokenizers with a vocabulary come out.
_PIECE: Final = re.compile(r" ?[A-Za-z]{1,6}| ?\d{1,3}| ?[^\sA-Za-z\d]|\s{1,4}")
_START: Final = 1  # in front of the piece's bytes, so that leading zero bytes are not lost
_LONGEST_NUMBER: Final = 2**63


def encode(text: str) -> list[int]:
    """The tokens of a text."""
    return [_number(piece) for piece in _PIECE.findall(text)]


def decode(tokens: Iterable[int]) -> str:
    """The text of tokens; a number that spells nothing stands as itself in brackets."""
    return "".join(map(text_of, tokens))


def text_of(token: int) -> str:
    """The text of one token."""
    if token == END_OF_TEXT:
        return ""
    if token < _LONGEST_NUMBER:
        spelled = token.to_bytes(8, "big").lstrip(b"\0")
        if spelled[0] == _START:
            try:
                return spelled[1:].decode()
            except UnicodeDecodeError:
                pass
    return f"<{token}>"


def _number(piece: str) -> int:
    return int.from_bytes(bytes((_START,)) + piece.encode("utf-8", "replace"), "big")
