"""The document at /state that the operator scales on (`workslice_api.state.RouterState`), kept in finished pieces so that serving it
costs the event loop next to nothing.
"""

from collections.abc import Iterator
from typing import Final

import orjson

from workslice_router.engine_gauges import EngineGauges
from workslice_router.routing_table import Pool, RoutingTable

POOLS_PER_STEP: Final = 50


class StateDocument:
    """One piece of JSON for each pool; only those that changed are made anew."""

    def __init__(self, table: RoutingTable, router: str) -> None:
        self._table = table
        self._router = router
        self._pieces: dict[str, orjson.Fragment] = {}
        self._synced = False
        self._asked_in_vain = 0

    def refresh(self, now: float) -> Iterator[None]:
        """Renew the pieces that are out of date, yielding every few pools so that the event loop may do other things; `now` is the
        clock of the queues. One at a time, and nobody may render before it has ended.
        """
        # Never newer than the pieces: the operator waits for the next change of that count, and takes a router that has seen all pools
        # at its word.
        self._synced, self._asked_in_vain = self._table.synced, self._table.asked_in_vain
        changed, pools = list(self._table.changed), self._table.pools
        self._table.changed.clear()
        for index, pool in enumerate(changed):
            if pools.get(pool.key) is pool:
                self._pieces[pool.key] = orjson.Fragment(orjson.dumps(_pool(pool, now)))
            elif pool.key not in pools:
                self._pieces.pop(pool.key, None)
            if index % POOLS_PER_STEP == POOLS_PER_STEP - 1:
                yield

    def render(self) -> bytes:
        """The whole document as of the last refresh."""
        return orjson.dumps(
            {
                "version": 1,
                "router": self._router,
                "synced": self._synced,
                "askedInVain": self._asked_in_vain,
                "pools": self._pieces,
            }
        )


def _pool(pool: Pool, now: float) -> dict[str, object]:
    queue = pool.queue
    return {
        "queued": len(queue),
        "running": pool.running,
        "queuedTokens": queue.tokens,
        "oldestWaitSeconds": round(queue.oldest_wait(now), 3),
        "askedTotal": pool.asked,
        "rejectedTotal": pool.rejected,
        "replicas": [
            {
                "uid": replica.uid,
                "address": f"{replica.host}:{replica.port}",
                "inFlight": replica.in_flight,
                "outstandingTokens": replica.outstanding_tokens,
                "dispatchCap": min(pool.spec.max_concurrent, replica.dispatch_cap),
                "ready": replica.spec.ready,
                "draining": replica.spec.draining or not replica.listed,
                "ejected": replica.health.ejected,
                "kvTokens": replica.kv_tokens,
                "engine": _engine(replica.gauges),
            }
            for replica in pool.replicas
        ],
    }


def _engine(gauges: EngineGauges | None) -> dict[str, object] | None:
    if gauges is None:
        return None
    used = gauges.kv_used
    return {
        "running": gauges.running,
        "waiting": gauges.waiting,
        "kvCacheUsage": None if used is None else round(used, 4),
    }
