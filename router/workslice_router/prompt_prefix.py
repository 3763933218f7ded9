"""Where prompts begin alike: hashes of a prompt's text up to fixed lengths, in a few microseconds whatever its length. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

LENGTHS: Final = tuple(2**power for power in range(9, 17))
"""Characters up to which beginnings are compared: 512, 1024, 2048 ... 65536. Less is not worth a word: an engine computes 512
characters of text in a few milliseconds."""
_SHORTEST: Final = 512
_WHOLE: Final = 2048
"""Up to here every character counts; from here on the last ones before each length."""
_SAMPLE: Final = 256


class Prefix(NamedTuple):
    """How a prompt begins."""

    characters: int
    """Of the whole prompt."""
    hashes: tuple[int, ...]
    """A number for each of LENGTHS that it is at least as long as: equal for equal beginnings, inside one process."""


def prefix_of(model: str, texts: Sequence[str]) -> Prefix | None:
    """How the texts, one after the other, begin when they are for a model; None when they are short. Long prompts that differ only
    where nobody looks count as equal: a wrong guess costs little, as most of the beginning is the same.
    """
    length = len(texts[0]) if len(texts) == 1 else sum(map(len, texts))
    if length < _SHORTEST:
        return None
    text = texts[0] if len(texts[0]) >= min(length, LENGTHS[-1]) else _beginning(texts)
    found = []
    hashed, start = hash(model), 0
    for end in LENGTHS:
        if end > length:
            break
        hashed = hash((hashed, text[start if end <= _WHOLE else end - _SAMPLE : end]))
        found.append(hashed)
        start = end
    return Prefix(length, tuple(found))


def _beginning(texts: Sequence[str]) -> str:
    missing, pieces = LENGTHS[-1], []
    for text in texts:
        pieces.append(text[:missing])
        missing -= len(pieces[-1])
        if not missing:
            break
    return "".join(pieces)
