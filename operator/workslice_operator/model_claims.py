"""Which pools may serve the names they claim, by the shared decision of workslice_api.ownership over live pools, and which fall back to
names that nobody serves.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from workslice_api.ownership import Conflict, model_ownership
from workslice_api.pool import WorkspacePool
from workslice_operator.keys import Key, pool_key
from workslice_operator.shared_read import SharedRead

SHARED_SECONDS = 3.0


class ModelClaims:
    """Answers for one pool at a time and wakes the others whose conflict began or ended."""

    def __init__(
        self,
        pools: Callable[[], Awaitable[Iterable[WorkspacePool]]],
        assigned: Mapping[str, str],
        wake: Callable[[Key], None],
    ) -> None:
        """`pools` reads all pools of the cluster that can be read."""
        self._read_pools = pools
        self._assigned = assigned
        self._wake = wake
        self._conflicts: Mapping[str, Conflict] = {}
        self._unserved: Mapping[str, str] = {}
        self._pools = SharedRead(self._read, SHARED_SECONDS)

    async def conflict(self, pool: WorkspacePool) -> Conflict | None:
        """Why this pool may not serve, or None. Never decides on a list that lacks this version of the pool."""
        version = (pool.metadata.uid, pool.metadata.generation)
        if (await self._pools.get()).get(pool.key) != version:
            await self._pools.get(fresh=True)
        return self._conflicts.get(pool.key)

    def unserved_fallback(self, pool: WorkspacePool) -> str:
        """The pool's fallback model if nobody of its namespace serves it, as of the last answer to `conflict`; else empty."""
        return self._unserved.get(pool.key, "")

    async def pool_gone(self) -> None:
        """A pool was deleted: others may get its names."""
        await self._pools.get(fresh=True)

    async def _read(self) -> dict[str, tuple[str, int]]:
        """UID and generation of every pool."""
        pools = list(await self._read_pools())
        ownership = model_ownership(pools, self._assigned)
        conflicts = ownership.conflicts
        unserved = {pool.key: name for pool in pools if (name := ownership.unserved_fallback(pool))}
        for pool in pools:
            key = pool.key
            if conflicts.get(key) != self._conflicts.get(key) or unserved.get(key) != self._unserved.get(key):
                self._wake(pool_key(pool.metadata.namespace, pool.metadata.name))
        self._conflicts, self._unserved = conflicts, unserved
        return {pool.key: (pool.metadata.uid, pool.metadata.generation) for pool in pools}
