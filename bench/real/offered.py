"""The requests of a run: short and long ones in two Poisson processes, their texts and lengths, all from a seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

SHORT, LONG = "short", "long"
_WORDS = (
    *(
        "the",
        "value",
        "path",
        "that",
        "is",
        "response",
        "when",
        "a",
        "type",
        "of",
        "data",
        "model",
        "for",
        "request",
        "and",
    ),
    *(
        "header",
        "this",
        "field",
        "used",
        "with",
        "default",
        "in",
        "query",
        "example",
        "to",
        "list",
        "name",
        "status",
        "by",
        "one",
    ),
)


@dataclass(frozen=True)
class Kind:
    """How requests of one class come and how large they are; lengths are spread evenly between two bounds."""

    per_second: float
    words: tuple[int, int]
    """Words of the prompt; a word is about 1.1 tokens of the model."""
    answer: tuple[int, int]
    """Tokens of the answer."""


@dataclass(frozen=True)
class Offered:
    """One request; `arrival` in seconds from the start of the run."""

    kind: str
    arrival: float
    words: tuple[str, ...]
    answer: int

    def prompt(self, title: str) -> str:
        """The text. It begins with the title, so that runs with different ones share no blocks of a prefix cache."""
        return f"{title}: {' '.join(self.words)}"


def offered(short: Kind, long: Kind, short_requests: int, seed: int) -> list[Offered]:
    """That many short requests, and long ones for as long as those come, in order of arrival."""
    shorts = []
    for one in _endless(SHORT, short, random.Random(f"{SHORT} {seed}")):
        shorts.append(one)
        if len(shorts) == short_requests:
            break
    longs = []
    for one in _endless(LONG, long, random.Random(f"{LONG} {seed}")):
        if one.arrival > shorts[-1].arrival:
            break
        longs.append(one)
    return sorted([*shorts, *longs], key=lambda one: one.arrival)


def _endless(name: str, kind: Kind, chance: random.Random) -> Iterator[Offered]:
    now = 0.0
    while True:
        now += chance.expovariate(kind.per_second)
        words = tuple(chance.choices(_WORDS, k=chance.randint(*kind.words)))
        yield Offered(name, now, words, chance.randint(*kind.answer))
