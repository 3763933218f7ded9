"""Raw objects that the models can read: an object stored before a schema grew stricter must not stop the others."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from workslice_api.pool import WorkspacePool
from workslice_operator.kube_api import POOLS, Reads


class PoolList:
    """All pools, read and parsed; a pool is parsed again only when it has changed."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._parsed: dict[tuple[str, str], tuple[tuple[str, str], WorkspacePool | None]] = {}

    async def __call__(self) -> list[WorkspacePool]:
        """Those that can be read; raises KubeError."""
        raws = await self._reads.list(POOLS)
        before, self._parsed = self._parsed, {}
        for raw in raws:
            metadata = raw["metadata"]
            name, version = (metadata["namespace"], metadata["name"]), (metadata["uid"], metadata["resourceVersion"])
            known = before.get(name)
            if known is None or known[0] != version:
                known = version, next(iter(readable_pools([raw])), None)
            self._parsed[name] = known
        return [pool for _, pool in self._parsed.values() if pool is not None]


def readable_pools(raws: Iterable[Mapping[str, Any]]) -> list[WorkspacePool]:
    """The pools that can be read; the reconcile of each of the others says what is wrong with it."""
    pools = []
    for raw in raws:
        try:
            pools.append(WorkspacePool.model_validate(raw))
        except ValidationError:
            continue
    return pools


def validation_sentence(error: ValidationError) -> str:
    """The faults of an object in one line, by field (the first five)."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False)[:5])
