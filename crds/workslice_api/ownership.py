"""Who may serve a model name: model names are cluster-wide, so the namespace that claimed a name first owns it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from workslice_api.pool import WorkspacePool

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Conflict:
    """Why a pool serves nothing: one of its names belongs to another namespace."""

    model: str
    owner_namespace: str
    owner_pool: str
    """Name of the pool that claimed it first; empty when the installation assigned the name."""


@dataclass(frozen=True)
class Ownership:
    """Owning namespace of every claimed name, and the pools that may not serve."""

    owners: Mapping[str, str]
    conflicts: Mapping[str, Conflict]
    """By pool key."""

    def unserved_fallback(self, pool: WorkspacePool) -> str:
        """The pool's degrade.fallbackModel when no pool of its namespace serves it, or only this one; empty when all is well."""
        name = pool.spec.degrade.fallback_model if pool.spec.degrade is not None else None
        if name is None or (name not in pool.served_names and self.owners.get(name) == pool.metadata.namespace):
            return ""
        return name


def model_ownership(pools: Iterable[WorkspacePool], assigned: Mapping[str, str]) -> Ownership:
    """Decide every claim at once; operator and routers call it with the same pools and agree.

    Names that a pool holds already (its status says so) stay with it. For the rest pools are heard by creation time, then UID: a pool
    claims all of its names or, when one of them belongs to another namespace, none, since it must not hold names that it does not
    serve. `assigned` maps model names to the namespace that alone may serve them; it comes before all.
    """
    owners: dict[str, tuple[str, str]] = {name: (namespace, "") for name, namespace in assigned.items()}
    conflicts: dict[str, Conflict] = {}
    heard = sorted(pools, key=lambda p: (p.metadata.creation_timestamp or _NEVER, p.metadata.uid, p.key))
    for pool in heard:
        for name in pool.served_names:
            if name in pool.status.models:
                owners.setdefault(name, (pool.metadata.namespace, pool.metadata.name))
    for pool in heard:
        namespace = pool.metadata.namespace
        foreign = next((name for name in pool.served_names if owners.get(name, (namespace, ""))[0] != namespace), None)
        if foreign is not None:
            conflicts[pool.key] = Conflict(foreign, *owners[foreign])
            continue
        for name in pool.served_names:
            owners.setdefault(name, (namespace, pool.metadata.name))
    return Ownership({name: owner[0] for name, owner in owners.items()}, conflicts)
