"""The one number that says how many requests a router may have on a replica now, from all that limits them. Pure."""

from workslice_router.choose import ready
from workslice_router.dispatch_cap import Requests, dispatch_cap
from workslice_router.mean_request import mean_request
from workslice_router.replica_limits import UNLIMITED, warm_limit
from workslice_router.routing_table import Pool, Replica


def renew_caps(pool: Pool, now: float) -> bool:
    """Take in what runs on a pool's replicas and since when they have been in rotation; True when a cap has changed."""
    requests = outstanding = sizes = 0
    held, someone_warm = 0.0, False
    for replica in pool.replicas:
        requests += replica.in_flight
        outstanding += replica.outstanding_tokens
        sizes += replica.sizes
        held += replica.load.held_tokens
        someone_warm = someone_warm or (replica.warm and ready(replica) and not replica.health.ejected)
    pool.mean_request = mean_request(pool.mean_request, requests, outstanding, held, sizes)
    changed = False
    for replica in pool.replicas:
        if not replica.warm and replica.spec.ready:
            _warm_up(replica, someone_warm, pool.spec.max_concurrent, now)
        changed = renew_cap(pool, replica) or changed
    return changed


def renew_cap(pool: Pool, replica: Replica) -> bool:
    """Renew the cap of one replica; True when it has changed."""
    own = most_at_once(pool, replica, Requests(replica.in_flight, replica.sizes))
    cap = min(own, replica.shared_limit, replica.warm_limit)
    changed = cap != replica.dispatch_cap
    replica.dispatch_cap = cap
    return changed


def most_at_once(pool: Pool, replica: Replica, running: Requests) -> int:
    """How many requests a replica may run that has these: all that its pool lets it, or fewer where its engine does better with fewer."""
    spec = pool.spec
    if not spec.derives_cap:
        return spec.max_concurrent
    pace = pool.pace if pool.pace is not spec.first_pace else None
    waiting = Requests(len(pool.queue), min(pool.queue.tokens, len(pool.queue) * spec.context_tokens))
    mean = pool.mean_request.size
    return dispatch_cap(spec.max_concurrent, running, waiting, mean, replica.kv_tokens, spec.level, pace)


def _warm_up(replica: Replica, someone_warm: bool, most: int, now: float) -> None:
    """Without a warm replica beside it that takes its part there is nobody to spare it for."""
    if replica.ready_since is None:
        replica.ready_since = now
    replica.warm_limit = warm_limit(now - replica.ready_since, replica.dispatched - replica.in_flight, most)
    replica.warm = not someone_warm or replica.warm_limit >= most
    if replica.warm:
        replica.warm_limit = UNLIMITED
