"""How fast the engines of a pool work on prompts, as first tokens show it. Pure.

A pool that looks slow gets few requests, so that it is little corrected: what makes it look slow is doubted more, and forgotten.
"""

from dataclasses import replace
from typing import Final

from workslice_router.replica_load import EnginePace, ReplicaLoad, Work

_LEAST_TOKENS: Final = 256
"""Shorter prompts say little of the pace: a step takes its time whatever is in it."""
_RISE: Final = 0.1
_FALL: Final = 0.02
_MOST: Final = 100.0
"""The pace is between the first guess divided by this and multiplied by it."""
_DOUBTFUL: Final = 2.0
"""A first token that is late by more than this factor rather shows that the replica stood still."""
_REMEMBERED: Final = 30.0
"""Seconds without a first token for which the pace stands."""
_HALF_FORGOTTEN: Final = 30.0
"""Then the seconds in which half of what was learned is forgotten."""


def learned_pace(pace: EnginePace, first: EnginePace, load: ReplicaLoad, work: Work, now: float) -> EnginePace:
    """The pace after a first token at `now`. What came after the request has slowed it as well, so that the truth is rather above
    what one request shows than below: higher observations count more. All that wait while a replica stands still are late
    together: they show it once, and no more than a doubtful delay. What a cache spared is a guess, so that such a request shows nothing.
    """
    elapsed = now - work.sent
    if not work.ahead or work.familiar or work.prompt < _LEAST_TOKENS or elapsed <= 0:
        return pace
    speed = pace.tokens_per_second
    seen = min(first.tokens_per_second * _MOST, max(first.tokens_per_second / _MOST, work.ahead / elapsed))
    rate = _RISE
    if seen <= speed:
        if work.sent <= load.doubted:
            return pace
        rate = _FALL
        if seen < speed / _DOUBTFUL:
            seen = speed / _DOUBTFUL
            load.doubted = now
    return replace(pace, tokens_per_second=speed * (seen / speed) ** rate, learned=now)


def faded_pace(pace: EnginePace, first: EnginePace, now: float) -> EnginePace:
    """The pace at `now`, a little nearer to the first guess than at the last look when no first token has shown it for a while."""
    forgetting = now - pace.learned - _REMEMBERED
    if pace is first or forgetting <= 0:
        return pace
    ratio = (pace.tokens_per_second / first.tokens_per_second) ** 0.5 ** (forgetting / _HALF_FORGOTTEN)
    if 0.99 < ratio < 1.01:
        return first
    return replace(pace, tokens_per_second=first.tokens_per_second * ratio, learned=now - _REMEMBERED)
