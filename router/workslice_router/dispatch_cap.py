"""How many requests one router runs at once on a replica: as many as its KV cache holds and its class's pace allows. Pure.

What runs there and who waits have their own sizes; only who else may come is guessed, by the mean of late. So a few giants that have
just ended do not keep small requests out, and giants that come leave no room for as many as the small ones before them had. Where too
much runs already, what ends gives its place to nobody until the rest fits.

What waits in an engine can go nowhere else and makes the answers beside it slower; what waits in the router goes where a place comes
free first. Too low a cap is worse than none, so that what is unknown limits nothing.
"""

import math
from dataclasses import dataclass
from typing import Final

from workslice_router.replica_load import EnginePace, ServiceLevel
from workslice_router.soft_choice import STEP_TOKENS, TOKENS_PER_HELD_TOKEN

_KV_SHARE: Final = 0.9
"""Of the KV cache: requests are not all of the mean size."""
_LEAST_SHARE: Final = 0.25
"""The pace never lowers the cap below this share of the most: how fast an engine answers is only estimated from its prompts."""


@dataclass(frozen=True, slots=True)
class Requests:
    """So many requests, of so many tokens in all: prompts and answers."""

    count: int
    tokens: int


def dispatch_cap(
    most: int,
    running: Requests,
    waiting: Requests,
    mean_tokens: float,
    kv_tokens: int | None,
    level: ServiceLevel | None,
    pace: EnginePace | None,
) -> int:
    """The cap of a replica that may run `most` and has some running, while others wait; those that come later are of `mean_tokens` (0
    while unknown). None is unknown.
    """
    if mean_tokens < 1:  # unknown
        return most
    cap = most
    if kv_tokens is not None:
        left = _KV_SHARE * kv_tokens - running.tokens
        cap = min(cap, running.count + _fitting(left, running, waiting, mean_tokens, 0.0, 1.0))
    if level is not None and pace is not None:
        beside_weights = level.per_token * pace.tokens_per_second - STEP_TOKENS
        left = beside_weights - running.count - TOKENS_PER_HELD_TOKEN * running.tokens
        in_time = running.count + _fitting(left, running, waiting, mean_tokens, 1.0, TOKENS_PER_HELD_TOKEN)
        cap = min(cap, max(in_time, int(_LEAST_SHARE * most)))
    return max(1, cap)


def _fitting(
    left: float, running: Requests, waiting: Requests, mean_tokens: float, each: float, each_token: float
) -> int:
    """How many more requests take no more than what is left: first those who wait, each like the mean of them, then others. Where more
    is taken than there is, how many have to end first (below 0), each like the mean of those that run.
    """
    if left <= 0:
        taken = running.count * each + running.tokens * each_token
        return math.floor(left / taken * running.count) if taken > 0 else 0
    theirs = waiting.count * each + waiting.tokens * each_token
    if theirs > left:
        return int(left / theirs * waiting.count)
    return waiting.count + int((left - theirs) / (each + mean_tokens * each_token))
