"""Requests of a bench: lengths drawn from published tables, arrivals with a given burstiness, all from a seed."""

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log

SHORT, LONG = "short", "long"
BOUNDARY = 4096
LARGEST = 65_536
QUANTILES = (0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 98, 99, 99.5, 99.9, 100)
# Tokens at those quantiles. Conversations of Azure's LLM inference trace of 2023 and of the Mooncake trace of 2025.
CHAT_PROMPT = (2, 29, 181, 207, 387, 403, 703, 1020, 1071, 1130, 1315, 2734, 4083, 4098, 4142, 4831, 6179, 14050)
CHAT_ANSWER = (7, 16, 41, 54, 77, 91, 103, 129, 177, 384, 400, 424, 451, 540, 601, 643, 954, 1000)
DOCUMENT_PROMPT = (
    *(891, 894, 901, 964, 1662, 3263, 4993, 6909, 9570),
    *(13196, 17869, 27367, 39550, 66448, 85400, 100810, 121300, 126195),
)
DOCUMENT_ANSWER = (1, 3, 10, 24, 100, 213, 291, 350, 399, 447, 504, 597, 698, 891, 1118, 1567, 2000, 2000)


@dataclass(frozen=True)
class Traffic:
    """What arrives."""

    rate: float
    """Requests a second, of both classes together."""
    long_share: float = 0.1
    cv: float = 1.0
    """Coefficient of variation of the gaps between arrivals: 1 is a Poisson process, more is burstier."""
    apart: bool = False
    """Each class has bursts of its own; else a burst has both classes in it."""


@dataclass(eq=False)
class Request:
    """One request; the engine's model fills in the rest."""

    number: int
    kind: str
    """The class that it really belongs to."""
    arrival: float
    prompt: int
    answer: int
    error: float
    """Estimated prompt size divided by the true one."""
    first: float = 0.0
    """When its first token came."""
    finished: float = 0.0
    stall: float = 0.0
    """Longest gap between two of its tokens."""
    preempted: int = 0
    replica: int = -1


def draw(table: Sequence[int], chance: random.Random) -> int:
    """A length by inverse transform, log-linear between the table's points."""
    at = chance.random() * 100
    place = min(bisect_right(QUANTILES, at), len(QUANTILES) - 1)
    low, high = QUANTILES[place - 1], QUANTILES[place]
    share = (at - low) / (high - low)
    return max(1, round(exp(log(table[place - 1]) * (1 - share) + log(table[place]) * share)))


def lengths(kind: str, chance: random.Random) -> tuple[int, int]:
    """Prompt and answer of a request whose total lies on its class's side of the boundary."""
    while True:
        if kind == SHORT:
            prompt, answer = draw(CHAT_PROMPT, chance), draw(CHAT_ANSWER, chance)
            if prompt + answer <= BOUNDARY:
                return prompt, answer
        else:
            prompt, answer = draw(DOCUMENT_PROMPT, chance), draw(DOCUMENT_ANSWER, chance)
            if BOUNDARY < prompt + answer <= LARGEST:
                return prompt, answer


def arrivals(rate: float, cv: float, seconds: float, chance: random.Random) -> Iterator[float]:
    shape = 1 / cv**2
    # A renewal process that begins long before the bench: a burst is as likely at its start as later.
    now = -20 / rate * cv**2
    while now < seconds:
        now += chance.gammavariate(shape, 1 / (rate * shape))
        if 0 <= now < seconds:
            yield now


def requests(traffic: Traffic, seconds: float, seed: int, spread: float) -> list[Request]:
    """All requests of a run, in order of arrival. `spread`: standard deviation of the logarithm of the estimate's error."""
    chance = {kind: random.Random(f"{kind} {seed}") for kind in (SHORT, LONG)}
    shares = {SHORT: 1 - traffic.long_share, LONG: traffic.long_share}
    when = random.Random(f"arrivals {seed}")
    which = random.Random(f"classes {seed}")
    if traffic.apart:
        times = [
            (at, kind)
            for kind, share in shares.items()
            for at in arrivals(traffic.rate * share, traffic.cv, seconds, when)
        ]
        times.sort()
    else:
        times = [
            (at, LONG if which.random() < traffic.long_share else SHORT)
            for at in arrivals(traffic.rate, traffic.cv, seconds, when)
        ]
    return [
        Request(number, kind, at, *lengths(kind, chance[kind]), exp(chance[kind].gauss(0, spread)))
        for number, (at, kind) in enumerate(times)
    ]
