"""The API as reconcilers look at it: reads of kinds that are watched cost nothing, everything else goes to the API.

What is read here may be a moment old. So whoever finds something to do looks again through the API itself before doing it
(`reconciler.py`); what was written comes back here at once, so that nobody mistakes the own last write for somebody else's change.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from workslice_api.names import POOL_LABEL
from workslice_operator.kube_api import CHILDREN, Kube, Object, Resource
from workslice_operator.object_store import ObjectStore


class Watched(Protocol):
    """One kind that is followed."""

    @property
    def fresh(self) -> bool:
        """It hears of every change at the moment."""

    @property
    def store(self) -> ObjectStore:
        """What it has heard."""


class LiveReads:
    """Reads through the API; what is read is no longer old in the stores. Fulfils kube_api.Reads."""

    def __init__(self, kube: Kube, watched: Mapping[Resource, Watched]) -> None:
        self._kube = kube
        self._watched = watched

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """See kube_api.Reads."""
        raw = await self._kube.get(resource, namespace, name)
        return None if raw is None else _known(self._watched, resource, raw)

    async def list(self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        """See kube_api.Reads."""
        raws = await self._kube.list(resource, namespace, labels, fields)
        return [_known(self._watched, resource, raw) for raw in raws]


def _known(watched: Mapping[Resource, Watched], resource: Resource, raw: Object) -> Object:
    if resource in watched:
        watched[resource].store.update(raw)
    return raw


class CachedKube:
    """Fulfils kube_api.Kube."""

    def __init__(self, kube: Kube, watched: Mapping[Resource, Watched]) -> None:
        self._kube = kube
        self._watched = watched

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """See kube_api.Kube. Of children only those that carry our labels are known here."""
        watched = self._fresh(resource)
        known = watched.store.get(namespace, name) if watched else None
        if known is not None or (watched is not None and resource in CHILDREN):
            return known
        return await self._kube.get(resource, namespace, name)  # the watch of profiles may be behind that of pools

    async def list(self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        """See kube_api.Kube: all objects of a kind, or those that carry the label of a pool."""
        watched = self._fresh(resource)
        pool = dict(pair.partition("=")[::2] for pair in labels.split(",")).get(POOL_LABEL, "")
        if watched is None or fields or bool(labels) != bool(pool):
            return await self._kube.list(resource, namespace, labels, fields)
        return watched.store.of_pool(namespace, pool) if pool else watched.store.all()

    async def apply(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        return _known(self._watched, resource, await self._kube.apply(resource, manifest))

    async def apply_status(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        return _known(self._watched, resource, await self._kube.apply_status(resource, manifest))

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        return await self._kube.create(resource, manifest)

    async def replace(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        return await self._kube.replace(resource, manifest)

    async def merge_patch(self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        """See kube_api.Kube."""
        await self._kube.merge_patch(resource, namespace, name, patch)

    async def pod_log(self, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
        """See kube_api.Kube."""
        return await self._kube.pod_log(namespace, pod, container, previous=previous, lines=lines)

    def _fresh(self, resource: Resource) -> Watched | None:
        watched = self._watched.get(resource)
        return watched if watched is not None and watched.fresh else None
