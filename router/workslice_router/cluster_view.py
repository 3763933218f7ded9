"""What the Kubernetes API has told of pools, profiles and EndpointSlices, brought into the routing table in small steps. Pure."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from workslice_api.names import ENGINE_PORT_NAME, POOL_LABEL
from workslice_api.ownership import model_ownership
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile, WorkspaceProfileSpec
from workslice_router.pool_spec import pool_spec, replica_specs
from workslice_router.routing_table import RoutingTable

POOLS_PER_STEP: Final = 8
"""So many pools at most change the table in one step: a fraction of a millisecond."""


class Kind(Enum):
    """The kinds of objects that routers watch."""

    POOL = "workspacepools"
    PROFILE = "workspaceprofiles"
    ENDPOINT_SLICE = "endpointslices"


class ClusterView:
    """The last known objects and which pools of the table they have made stale."""

    def __init__(self, model_owners: Mapping[str, str]) -> None:
        self._model_owners = model_owners
        self._versions: dict[Kind, dict[str, str]] = {kind: {} for kind in Kind}
        self._pools: dict[str, WorkspacePool] = {}
        self._profiles: dict[str, tuple[WorkspaceProfileSpec, int | None]] = {}
        self._slices: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._pool_of_slice: dict[str, str] = {}
        self._claims: dict[str, set[str]] = {}
        self._users: dict[str, set[str]] = {}
        self._conflicts: set[str] = set()
        self._stale_claims: dict[str, None] = {}
        self._stale: dict[str, None] = {}

    def put(self, kind: Kind, item: Mapping[str, Any]) -> None:
        """Take in an object as it now is; a version that is already known costs nothing.

        Raises:
            ValueError: the object is not what its kind says (pydantic's ValidationError); the one known before stays.
        """
        metadata = item["metadata"]
        key = _key(metadata)
        version = metadata.get("resourceVersion", "")
        if version and self._versions[kind].get(key) == version:
            return
        match kind:
            case Kind.POOL:
                self._put_pool(key, WorkspacePool.model_validate(item))
            case Kind.PROFILE:
                self._put_profile(metadata["name"], WorkspaceProfile.model_validate(item))
            case Kind.ENDPOINT_SLICE:
                self._put_slice(key, metadata, item)
        self._versions[kind][key] = version

    def delete(self, kind: Kind, metadata: Mapping[str, Any]) -> None:
        """Forget an object."""
        self._delete(kind, _key(metadata))

    def keep_only(self, kind: Kind, items: Iterable[Mapping[str, Any]]) -> None:
        """After a complete list: forget what is not in it, since its deletion was missed."""
        listed = {_key(item["metadata"]) for item in items}
        for key in [key for key in self._versions[kind] if key not in listed]:
            self._delete(kind, key)

    def step(self, table: RoutingTable) -> bool:
        """Bring some stale pools of the table up to date; True when there are more."""
        for _ in range(POOLS_PER_STEP):
            if not self._stale_claims:
                break
            self._decide_claims(next(iter(self._stale_claims)))
        for _ in range(POOLS_PER_STEP):
            if self._stale_claims or not self._stale:
                break
            key = next(iter(self._stale))
            del self._stale[key]
            self._update(table, key)
        table.commit()
        return bool(self._stale_claims or self._stale)

    def _put_pool(self, key: str, pool: WorkspacePool) -> None:
        before = self._pools.get(key)
        self._pools[key] = pool
        self._stale[key] = None
        if before is not None and _claim(before) == _claim(pool):
            return
        if before is not None:
            self._withdraw(key, before)
        for name in pool.served_names:
            self._claims.setdefault(name, set()).add(key)
            self._stale_claims[name] = None
        self._users.setdefault(pool.spec.profile_ref.name, set()).add(key)

    def _put_profile(self, name: str, profile: WorkspaceProfile) -> None:
        known = profile.spec, profile.status.start_seconds
        if self._profiles.get(name) != known:
            self._profiles[name] = known
            self._stale.update(dict.fromkeys(self._users.get(name, ())))

    def _put_slice(self, key: str, metadata: Mapping[str, Any], item: Mapping[str, Any]) -> None:
        self._drop_slice(key)
        pool_name = (metadata.get("labels") or {}).get(POOL_LABEL)
        if not pool_name:
            return
        pool_key = f"{metadata.get('namespace', '')}/{pool_name}"
        self._slices.setdefault(pool_key, {})[key] = {"ports": item.get("ports"), "endpoints": item.get("endpoints")}
        self._pool_of_slice[key] = pool_key
        self._stale[pool_key] = None

    def _delete(self, kind: Kind, key: str) -> None:
        self._versions[kind].pop(key, None)
        match kind:
            case Kind.POOL:
                pool = self._pools.pop(key, None)
                if pool is not None:
                    self._withdraw(key, pool)
                    self._stale[key] = None
            case Kind.PROFILE:
                if self._profiles.pop(key, None) is not None:
                    self._stale.update(dict.fromkeys(self._users.get(key, ())))
            case Kind.ENDPOINT_SLICE:
                self._drop_slice(key)

    def _drop_slice(self, key: str) -> None:
        pool_key = self._pool_of_slice.pop(key, None)
        if pool_key is not None:
            self._slices[pool_key].pop(key, None)
            if not self._slices[pool_key]:
                del self._slices[pool_key]
            self._stale[pool_key] = None

    def _withdraw(self, key: str, pool: WorkspacePool) -> None:
        for name in pool.served_names:
            self._claims[name].discard(key)
            self._stale_claims[name] = None
        self._users[pool.spec.profile_ref.name].discard(key)

    def _decide_claims(self, name: str) -> None:
        """Decide who owns `name` and every name that its claimants share with others: pools outside cannot change the answer."""
        names, keys, pending = set(), set(), [name]
        while pending:
            current = pending.pop()
            if current in names:
                continue
            names.add(current)
            for key in self._claims.get(current, ()):
                if key not in keys:
                    keys.add(key)
                    pending.extend(self._pools[key].served_names)
        conflicts = model_ownership([self._pools[key] for key in keys], self._model_owners).conflicts
        for key in keys:
            if (key in conflicts) != (key in self._conflicts):
                self._conflicts ^= {key}
                self._stale[key] = None
        for decided in names:
            self._stale_claims.pop(decided, None)
            if not self._claims.get(decided):
                self._claims.pop(decided, None)

    def _update(self, table: RoutingTable, key: str) -> None:
        pool = self._pools.get(key)
        if pool is None:
            self._conflicts.discard(key)
            table.remove_pool(key)
            return
        profile, start_seconds = self._profiles.get(pool.spec.profile_ref.name, (None, None))
        serving = key not in self._conflicts and pool.metadata.deletion_timestamp is None
        table.put_pool(pool_spec(pool, profile, start_seconds), serving)
        slices = self._slices.get(key, {})
        table.put_replicas(key, replica_specs(slices.values(), ENGINE_PORT_NAME, frozenset(pool.status.draining)))


def _claim(pool: WorkspacePool) -> tuple[object, ...]:
    """What decides ownership, and the profile."""
    metadata = pool.metadata
    held = tuple(pool.status.models)
    return pool.served_names, held, metadata.uid, metadata.creation_timestamp, pool.spec.profile_ref.name


def _key(metadata: Mapping[str, Any]) -> str:
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
