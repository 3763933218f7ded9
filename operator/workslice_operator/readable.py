"""Raw objects that the models can read: an object stored before a schema grew stricter must not stop the others."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from workslice_api import deep_json
from workslice_api.base import ObjectMeta
from workslice_api.pool import WorkspacePool, WorkspacePoolStatus
from workslice_operator.cached_kube import Watched
from workslice_operator.kube_api import POOLS, Object, Reads
from workslice_operator.object_store import Name, Version, name_of


class PoolList:
    """All pools, read and parsed; a pool is parsed again only when it has changed."""

    def __init__(self, reads: Reads, own: Watched | None = None) -> None:
        """`own`: what kopf tells of pools; until all of them are there, and without it, `reads` lists them."""
        self._reads = reads
        self._own = own
        self._parsed: dict[Name, _Parsed] = {}

    async def __call__(self) -> list[WorkspacePool]:
        """Those that can be read; raises KubeError."""
        if self._own is not None and self._own.fresh:
            self._parse(self._own.store.versions(), self._own.store.get)
        else:
            raws = {name_of(raw): raw for raw in await self._reads.list(POOLS)}
            self._parse({name: _version(raw) for name, raw in raws.items()}, lambda *name: raws[name])
        return [one.pool for one in self._parsed.values() if one.pool is not None]

    def parse(self, raw: Object) -> WorkspacePool:
        """One pool, the same object for everybody as long as it does not change; raises ValidationError."""
        name, version = name_of(raw), _version(raw)
        known = self._parsed.get(name)
        if known is None or known.version != version or known.pool is None:
            known = self._parsed[name] = _parsed(raw, version, known)
        assert known.pool is not None
        return known.pool

    def _parse(self, versions: Mapping[Name, Version], read: Callable[[str, str], Object | None]) -> None:
        before, self._parsed = self._parsed, {}
        for name, version in versions.items():
            known = before.get(name)
            if known is None or known.version != version:
                raw = read(*name)
                try:
                    known = _parsed(raw, version, known) if raw else _Parsed(version, "", None)
                except ValidationError:
                    known = _Parsed(version, "", None)
            self._parsed[name] = known


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A pool as it was read last."""

    version: Version
    spec: str
    """Digest of its raw spec."""
    pool: WorkspacePool | None
    """None: it cannot be read."""


def _parsed(raw: Object, version: Version, before: _Parsed | None) -> _Parsed:
    """With what has not changed taken from before: most changes are of the status, and there are thousands of pools."""
    spec = hashlib.sha256(deep_json.dumps(raw.get("spec"))).hexdigest()
    if before is None or before.pool is None or before.spec != spec:
        return _Parsed(version, spec, WorkspacePool.model_validate(raw))
    metadata = ObjectMeta.model_validate(raw["metadata"])
    status = WorkspacePoolStatus.model_validate(raw.get("status") or {})
    changed = {"metadata": metadata, "status": before.pool.status if status == before.pool.status else status}
    return _Parsed(version, spec, before.pool.model_copy(update=changed))


def _version(raw: Object) -> Version:
    return raw["metadata"]["uid"], int(raw["metadata"].get("resourceVersion") or 0)


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
