"""Which pool and which replica take a request: by weight between pools of its class, by least outstanding work inside a pool."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from workslice_router.classify import prefers
from workslice_router.ejection import HEALTHY, available, hopeful
from workslice_router.routing_table import ClassRoutes, ModelRoutes, Pool, Replica

FAVOURITE_RATIO: Final = 1.3
"""How much more outstanding work than the best replica the favourite of a session may have, where a class has no service level."""


def pools_in_order(
    routes: ModelRoutes, chosen: ClassRoutes, prompt: int, total: int, room: int, class_only: bool, random: float
) -> list[Pool]:
    """Pools for a request of about `total` tokens, `prompt` of them its prompt, that should have `room`, best first: those of its
    class, drawn by weight with `random` in [0, 1), then, unless `class_only`, pools of other classes that prefer requests up to this
    size, smallest first. Weight 0 takes none.
    """
    holding = [pool for pool in chosen.pools if room <= pool.spec.context_tokens]
    order = weighted(holding or _largest(chosen.pools), random)
    if not class_only:
        for other in routes.classes:
            if other is not chosen:
                for pool in other.pools:
                    if takes_over(pool, prompt, total, room) and pool.spec.weight and pool.serving:
                        order.append(pool)
    return order


def pools_to_share(
    routes: ModelRoutes,
    chosen: ClassRoutes,
    order: Iterable[Pool],
    room: int,
    class_only: bool,
    excluded: Collection[str],
    now: float,
) -> list[Pool]:
    """The first pool of the class in `order` that has a place, and, unless `class_only`, the pools of other classes that lend it
    their replicas; none where somebody waits already.
    """
    sharing = []
    for pool in order:
        if pool.spec.class_name == chosen.name and not pool.queue and has_place(pool, excluded, now):
            sharing.append(pool)
            break
    if not class_only:
        for other in routes.classes:
            if other is not chosen:
                for pool in other.pools:
                    if lends(pool, chosen, room) and pool.spec.weight and pool.serving and not pool.queue:
                        sharing.append(pool)
    return sharing


def lends(pool: Pool, chosen: ClassRoutes, room: int) -> bool:
    """Whether a pool takes requests of another class of any size that it holds: both say how fast they should be answered."""
    spec = pool.spec
    return spec.level is not None and chosen.level is not None and room <= spec.context_tokens and not spec.strict


def takes_over(pool: Pool, prompt: int, total: int, room: int) -> bool:
    """Whether a request of another class may go to this pool."""
    spec = pool.spec
    if spec.strict or total > spec.class_tokens or room > spec.context_tokens:
        return False
    return prefers(spec.class_prompt_tokens, prompt)


def weighted(pools: Sequence[Pool], random: float) -> list[Pool]:
    """The pool that `random` draws by weight, then the rest; pools that could serve someone now or soon are drawn first."""
    able = [pool for pool in pools if pool.spec.weight and pool.serving]
    if len(able) <= 1:
        return able
    alive = [pool for pool in able if has_hope(pool, ())]
    drawn = _draw(alive or able, random)
    return [drawn, *(pool for pool in alive if pool is not drawn), *(pool for pool in able if pool not in alive)]


def _draw(pools: Sequence[Pool], random: float) -> Pool:
    mark = random * sum(pool.spec.weight for pool in pools)
    for pool in pools:
        mark -= pool.spec.weight
        if mark < 0:
            return pool
    return pools[-1]


def _largest(pools: Iterable[Pool]) -> list[Pool]:
    pools = list(pools)
    largest = max(pool.spec.context_tokens for pool in pools)
    return [pool for pool in pools if pool.spec.context_tokens == largest]


def takes_one(replica: Replica, most: int, excluded: Collection[str], now: float) -> bool:
    """Whether a replica, one outside `excluded`, could take a request now; `most` is its pool's max_concurrent."""
    spec = replica.spec
    if not spec.ready or spec.draining or not replica.listed:
        return False
    if replica.in_flight >= most or replica.in_flight >= replica.dispatch_cap:
        return False
    if replica.health is not HEALTHY and not available(replica.health, now):
        return False
    return not excluded or spec.uid not in excluded


def places(pool: Pool, excluded: Collection[str], now: float) -> list[Replica]:
    """The replicas outside `excluded` that could take a request now."""
    most = pool.spec.max_concurrent
    return [replica for replica in pool.replicas if takes_one(replica, most, excluded, now)]


def has_place(pool: Pool, excluded: Collection[str], now: float) -> bool:
    """Whether any could."""
    most = pool.spec.max_concurrent
    return any(takes_one(replica, most, excluded, now) for replica in pool.replicas)


def best_replica(
    pool: Pool, excluded: Collection[str], now: float, favourite: Replica | None = None, spared: float = 0.0
) -> Replica | None:
    """The replica with room that has the least outstanding work (estimated tokens, those of others included, then requests); idle
    ones take turns. The favourite has room and is taken unless it has more than 1.3 times that, and beyond it more than the tokens
    that it would spare.
    """
    best = min(places(pool, excluded, now), key=_outstanding_work, default=None)
    if favourite is None or best is None or best is favourite:
        return best
    if _outstanding_work(favourite)[0] > FAVOURITE_RATIO * _outstanding_work(best)[0] + spared:
        return best
    return favourite if any(one is favourite for one in places(pool, excluded, now)) else best


def _outstanding_work(replica: Replica) -> tuple[int, int, int]:
    return replica.outstanding_tokens + replica.others_tokens, replica.in_flight, replica.dispatched


def ready(replica: Replica) -> bool:
    """Whether discovery calls it ready and leaves it in rotation, busy or resting as it may be."""
    return replica.spec.ready and not replica.spec.draining and replica.listed


def has_hope(pool: Pool, excluded: Collection[str]) -> bool:
    """Whether it makes sense to wait for a place: a replica outside `excluded` is alive (busy or resting for a moment), or one that
    the operator wants has yet to come.
    """
    return (
        has_live_replica(pool, excluded)
        or sum(ready(replica) for replica in pool.replicas) < pool.spec.desired_replicas
    )


def has_live_replica(pool: Pool, excluded: Collection[str]) -> bool:
    """Whether a replica outside `excluded` is alive: busy, or resting for a moment."""
    return any(
        ready(replica) and replica.spec.uid not in excluded and hopeful(replica.health) for replica in pool.replicas
    )
