"""How many requests one router runs at once on a replica: as many as its KV cache holds and its class's pace allows. Pure.

What waits in an engine can go nowhere else and makes the answers beside it slower; what waits in the router goes where a place comes
free first. Too low a cap is worse than none, so that what is unknown limits nothing.
"""

from typing import Final

from workslice_router.replica_load import EnginePace, ServiceLevel
from workslice_router.soft_choice import STEP_TOKENS, TOKENS_PER_HELD_TOKEN

_KV_SHARE: Final = 0.9
"""Of the KV cache: requests are not all of the mean size."""
_LEAST_SHARE: Final = 0.25
"""The pace never lowers the cap below this share of the most: how fast an engine answers is only estimated from its prompts."""


def dispatch_cap(
    most: int, mean_tokens: float, kv_tokens: int | None, level: ServiceLevel | None, pace: EnginePace | None
) -> int:
    """The cap of a replica that may run `most`, with requests of `mean_tokens` (prompt and answer, 0 while unknown); None is unknown."""
    if mean_tokens < 1:  # unknown
        return most
    cap = most
    if kv_tokens is not None:
        cap = min(cap, int(_KV_SHARE * kv_tokens / mean_tokens))
    if level is not None and pace is not None:
        beside_weights = level.per_token * pace.tokens_per_second - STEP_TOKENS
        in_time = int(beside_weights / (1 + TOKENS_PER_HELD_TOKEN * mean_tokens))
        cap = min(cap, max(in_time, int(_LEAST_SHARE * most)))
    return max(1, cap)
