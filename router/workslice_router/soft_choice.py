"""Which replica takes a request whose class has a service level: the one where it costs least, measured in service levels. Pure.

Pools are preferences here, not walls: a replica of another class's pool is taken when what it spares is worth more than a penalty.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from workslice_router.choose import places
from workslice_router.replica_load import EnginePace, ReplicaLoad, ServiceLevel, tokens_ahead
from workslice_router.routing_table import ClassRoutes, Pool, Replica
from workslice_router.shown_load import ShownLoad

LARGER_POOL: Final = 0.1
"""Penalty of a replica whose pool prefers larger requests, in service levels; it keeps their places free."""
SMALLER_POOL: Final = 0.4
"""Penalty of a replica whose pool prefers smaller requests; it keeps long prompts off the replicas where small requests go."""
OTHERS_FIRST_TOKEN: Final = 0.5
"""Weight of the delay of those who wait for a first token there."""
OTHERS_ANSWERS: Final = 0.02
"""Weight of the delay of the answers that come from there: their prompts still to come meet the same delay anyway."""
# An engine's step in terms of the prompt tokens that it could compute in the same time: what reading the weights, and the cache of a
# token, costs. Rooflines of 8-bit models of 8 billion parameters; only differences between replicas matter.
STEP_TOKENS: Final = 110.0
TOKENS_PER_HELD_TOKEN: Final = 1.2e-3
FAVOURITE: Final = 0.3
"""How much more than the best replica the favourite of a session may cost, in service levels."""
LEAST_COMPUTED: Final = 16.0
"""Tokens of a prompt that an engine computes even when it knows all of it: caches hold whole blocks, and the last token is needed."""
FULL_CACHE: Final = 0.9
"""Share of the KV cache from which an engine may soon have to interrupt sequences and compute them anew."""
FULLER: Final = 100.0
"""Service levels that a request costs for the share beyond: so much that it goes there last."""


def best_place(
    pools: Iterable[Pool],
    chosen: ClassRoutes,
    prompt: float,
    answer: float,
    level: ServiceLevel,
    excluded: Collection[str],
    now: float,
    known: Mapping[Replica, float] | None = None,
    favourite: Replica | None = None,
) -> tuple[Pool, Replica] | None:
    """The replica with room in any of the pools where a request of the class with so many tokens costs least. Of its prompt the tokens
    in `known` need not be computed there. The favourite of its session is taken where it costs little more.
    """
    best: tuple[Pool, Replica] | None = None
    best_rank: tuple[float, int] | None = None
    kept: tuple[float, Pool] | None = None
    for pool in pools:
        pace, size = pool.pace, pool.spec.class_tokens
        penalty = 0.0
        if pool.spec.class_name != chosen.name and size != chosen.tokens:
            penalty = LARGER_POOL if size > chosen.tokens else SMALLER_POOL
        for replica in places(pool, excluded, now):
            fresh = max(LEAST_COMPUTED, prompt - known[replica]) if known and replica in known else prompt
            rank = (penalty + cost(replica.load, fresh, answer, level, pace), replica.dispatched)
            if best_rank is None or rank < best_rank:
                best, best_rank = (pool, replica), rank
            if replica is favourite:
                kept = rank[0], pool
    if kept is not None and favourite is not None and best_rank is not None and kept[0] <= best_rank[0] + FAVOURITE:
        return kept[1], favourite
    return best


def cost(load: ReplicaLoad, prompt: float, answer: float, level: ServiceLevel, pace: EnginePace) -> float:
    """What a request costs there, in service levels: its own first token and its answer's pace, and the delay of those already there."""
    speed = pace.tokens_per_second
    held = load.held_tokens + prompt + answer / 2
    step = STEP_TOKENS + load.answering + 1 + TOKENS_PER_HELD_TOKEN * held
    if not load.prompts:
        first, delay = prompt, 0.0
    else:
        first = tokens_ahead(load, prompt, pace)
        longer, delay = load.sizes.beside(prompt)
        step += len(load.prompts)
        if longer > 0:  # computed beside the answer
            step += min(longer / max(1.0, answer), (pace.at_once - 1) * pace.chunk or pace.chunk)
    total = first / speed / level.first_token + step / speed / level.per_token + OTHERS_FIRST_TOKEN * delay / speed
    if load.haste:
        total += OTHERS_ANSWERS * load.haste * prompt / speed
    if load.shown is not None:
        total += _shown_cost(load.shown, prompt, held, level, speed)
    return total


def _shown_cost(shown: ShownLoad, prompt: float, held: float, level: ServiceLevel, speed: float) -> float:
    """What a request costs more by what others have there, which may wait and answer as ours do, and by a cache that is nearly full."""
    first = shown.prompts * min(shown.prompt, prompt)
    step = shown.answering + shown.prompts + TOKENS_PER_HELD_TOKEN * shown.held_tokens
    full = max(0.0, shown.kv_used + held * shown.kv_per_token - FULL_CACHE)
    return first / speed / level.first_token + step / speed / level.per_token + FULLER * full
