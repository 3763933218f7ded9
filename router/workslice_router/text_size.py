"""How large a text is in tokens, and of what kind, from a few counts over its bytes: about 10 µs, whatever its length. Pure.

The weights below are a compromise between the byte-level vocabularies of Qwen and Mistral, fitted once on texts of every kind. They
make texts of one kind comparable (code with more brackets has more tokens for its length); how a model's own tokenizer differs from
them is learned from its engines, for each kind on its own.
"""

import string
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import Final


class TextKind(IntEnum):
    """Kinds of text that tokenizers cut differently."""

    PROSE = 0
    """Mostly words of Latin letters."""
    CODE = 1
    """Programs and markup: many signs and indentation."""
    DATA = 2
    """JSON and the like: keys and strings in double quotes."""
    CHINESE = 3
    JAPANESE = 4
    KOREAN = 5
    OTHER_SCRIPT = 6
    """Cyrillic, Greek, Arabic, and scripts of India and South-East Asia."""
    TOOLS = 7
    """Descriptions of functions, which every model's template prints in its own way; who knows what texts are for decides it."""


@dataclass(slots=True, init=False)  # see RequestView
class TextSize:
    """What the counts say of a text. Nobody changes it."""

    tokens: float
    """By the weights; a model's own ratio goes on top."""
    least: int
    """Fewest tokens that it has in any tokenizer: long words of ten letters and more are one token, and signs may be none."""
    kind: TextKind

    def __init__(self, tokens: float, least: int, kind: TextKind) -> None:
        self.tokens = tokens
        self.least = least
        self.kind = kind


_PIECES: Final = 8
_PIECE: Final = 1024
_SAMPLED: Final = _PIECES * _PIECE
"""Characters that are looked at; of a longer text pieces spread over its length."""

_LOWER: Final = string.ascii_lowercase.encode()
_UPPER: Final = string.ascii_uppercase.encode()
_DIGITS: Final = string.digits.encode()
_NOT_ASCII: Final = bytes(range(0x80, 0x100))
_NOT_HAN: Final = bytes(byte for byte in range(0x100) if not 0xE4 <= byte <= 0xE9)
_NOT_HANGUL: Final = bytes(byte for byte in range(0x100) if not 0xEA <= byte <= 0xED)

_PER_LOWER: Final = 0.14
_PER_UPPER: Final = 0.22
_PER_DIGIT: Final = 1.4
_PER_SPACE: Final = 0.42
_PER_PAIR_OF_SPACES: Final = -0.6  # indentation of any depth is about one token
_PER_NEWLINE: Final = 0.75
_PER_SIGN: Final = 0.53
_PER_TWO_BYTES: Final = 0.38
_PER_THREE_BYTES: Final = 0.74

_LONGEST_TOKEN: Final = 12
"""Letters and digits that a token has at most, on average over a text."""
_CODE_SIGNS: Final = 0.09
"""Share of signs among the visible ASCII characters from which a text counts as code."""
_DATA_QUOTES: Final = 0.06
"""Share of double quotes from which it counts as data: every key and string of JSON has two."""
_FOREIGN: Final = 0.2
"""Share of other characters, from which their script decides the kind."""
_KANA: Final = 0.15
_MANY: Final = 1.2
"""Bytes per character from which most of a text is not ASCII."""
_SCRIPT_BYTES: Final = 8192
_EMPTY: Final = TextSize(0.0, 0, TextKind.PROSE)


def text_size(texts: Sequence[str]) -> TextSize:
    """Size of the texts together."""
    length = len(texts[0]) if len(texts) == 1 else sum(map(len, texts))
    if length <= _SAMPLED:
        return _size("".join(texts).encode("utf-8", "surrogatepass"), length) if length else _EMPTY
    step = (length - _PIECE) / (_PIECES - 1)
    starts = [int(number * step) for number in range(_PIECES)]
    # Each by itself: a single sign that is not ASCII would make the encoding of all of them forty times as dear.
    raw = b"".join([piece.encode("utf-8", "surrogatepass") for piece in _pieces(texts, starts)])
    sample = _size(raw, _SAMPLED)
    scale = length / _SAMPLED
    return TextSize(sample.tokens * scale, int(sample.least * scale), sample.kind)


def _pieces(texts: Sequence[str], starts: Iterable[int]) -> list[str]:
    """The pieces that begin at `starts` of all texts together. The whole is never made: one emoji would make it four bytes a character."""
    if len(texts) == 1:
        return [texts[0][start : start + _PIECE] for start in starts]
    pieces = []
    ends = list(accumulate(map(len, texts)))
    for start in starts:
        number = bisect_right(ends, start)
        at = start - ends[number] + len(texts[number])
        missing = _PIECE
        while missing:
            piece = texts[number][at : at + missing]
            pieces.append(piece)
            missing -= len(piece)
            number, at = number + 1, 0
    return pieces


def _size(raw: bytes, characters: int) -> TextSize:
    """Size of the text of so many characters that `raw` is in UTF-8."""
    foreign_bytes = len(raw) > characters
    # Few of them are taken out when letters are gone, which is most of the bytes; many at once.
    some = raw.translate(None, _NOT_ASCII) if len(raw) > _MANY * characters else raw
    upper_and_rest = some.translate(None, _LOWER)
    rest = upper_and_rest.translate(None, _UPPER)
    lower, upper = len(some) - len(upper_and_rest), len(upper_and_rest) - len(rest)
    if foreign_bytes and some is raw:
        rest = rest.translate(None, _NOT_ASCII)
    spaces, newlines = rest.count(b" "), rest.count(b"\n")
    digits = len(rest) - len(rest.translate(None, _DIGITS))
    signs = len(rest) - spaces - newlines - digits
    tokens = (
        lower * _PER_LOWER
        + upper * _PER_UPPER
        + digits * _PER_DIGIT
        + spaces * _PER_SPACE
        + newlines * _PER_NEWLINE
        + signs * _PER_SIGN
    )
    words = lower + upper + digits
    visible = words + signs
    kind = TextKind.PROSE
    if signs >= _CODE_SIGNS * visible:  # prose is not indented
        tokens = max(0.0, tokens + _pairs_of_spaces(some) * _PER_PAIR_OF_SPACES)  # there may be fewer pairs
        kind = TextKind.DATA if rest.count(b'"') > _DATA_QUOTES * visible else TextKind.CODE
    if not foreign_bytes:
        return TextSize(tokens, words // _LONGEST_TOKEN, kind)
    ascii_bytes = lower + upper + len(rest)
    high, foreign = len(raw) - ascii_bytes, characters - ascii_bytes
    three = max(0, high - 2 * foreign)  # exact but for characters of four bytes, which count as two of three
    two = max(0, foreign - three)
    tokens += two * _PER_TWO_BYTES + three * _PER_THREE_BYTES
    least = (words + two) // _LONGEST_TOKEN + three // 4
    if foreign < _FOREIGN * (visible + foreign):
        return TextSize(tokens, least, kind)
    return TextSize(tokens, least, _script(raw, two, three))


def _pairs_of_spaces(some: bytes) -> int:
    """About how many there are, from two quarters of the text: looking for two bytes costs more than all the rest."""
    eighth = len(some) // 8
    return 2 * (some.count(b"  ", eighth, 3 * eighth) + some.count(b"  ", 5 * eighth, 7 * eighth))


def _script(raw: bytes, two: int, three: int) -> TextKind:
    """The script by the first bytes of its characters in UTF-8: E3 is kana (and a little punctuation), E4 to E9 Han, EA to ED Hangul."""
    step = len(raw) // _SCRIPT_BYTES * 3 + 1  # never a multiple of 3, or it could miss every first byte
    some = raw[::step]
    hangul = len(some.translate(None, _NOT_HANGUL))
    kana = some.count(b"\xe3")
    han = len(some.translate(None, _NOT_HAN))
    if hangul > kana + han:
        return TextKind.KOREAN
    if two > three or (kana + han) * step < three / 2:
        return TextKind.OTHER_SCRIPT
    return TextKind.JAPANESE if kana > _KANA * (kana + han) else TextKind.CHINESE
