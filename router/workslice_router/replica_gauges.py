"""What is kept of an engine's gauges on its replica, for the choice of replicas and for the limits of what they run. Pure."""

from workslice_router.dispatch_cap import Requests
from workslice_router.engine_gauges import EngineGauges
from workslice_router.replica_cap import most_at_once, renew_cap
from workslice_router.replica_limits import seen_load, shared_limit, unseen_limit
from workslice_router.routing_table import Pool, Replica
from workslice_router.shown_load import mean_shown, shown_load


def take_gauges(pool: Pool, replica: Replica, gauges: EngineGauges | None, own: int, now: float) -> None:
    """Keep what the engine showed at `now`, while this router had `own` sequences there; None when its load has become unknown."""
    replica.gauges = gauges
    load = replica.load
    if gauges is None:
        # Nothing known is not nothing there: it is taken to be like the other replicas.
        load.shown = mean_shown([one.load.shown for one in pool.replicas if one.gauges and one.load.shown])
        replica.others_tokens = load.shown.tokens if load.shown is not None else 0
        others = load.shown.requests if load.shown is not None else 0
        replica.shared_limit = unseen_limit(_most_of_all(pool, replica, others), pool.share.part)
        renew_cap(pool, replica)
        return
    shown = shown_load(gauges, own, load.held_tokens, pool.mean_request)
    load.shown, replica.others_tokens = shown, shown.tokens
    replica.gauges_at = now
    pool.share = seen_load(pool.share, replica.in_flight, shown.requests, len(pool.replicas))
    if gauges.kv_tokens:
        replica.kv_tokens = gauges.kv_tokens
        replica.remembers = int(gauges.kv_tokens / max(1.0, pool.mean_request.prompt + pool.mean_request.answer))
    most = _most_of_all(pool, replica, shown.requests)
    replica.shared_limit = shared_limit(most, replica.in_flight, shown.requests, pool.share.part)
    renew_cap(pool, replica)


def _most_of_all(pool: Pool, replica: Replica, others: int) -> int:
    """How many requests a replica may run of all routers, where others have so many there. One router alone needs no part of it."""
    if pool.share.part == 1:
        return pool.spec.max_concurrent
    # Sized like this router's own (unknown is 0): the mean that placement guesses from begins as large as the class allows.
    sizes = replica.sizes + round(others * pool.mean_request.size)
    return most_at_once(pool, replica, Requests(replica.in_flight + others, sizes))
