"""Writes only while the Lease is held: it may run out between the beginning of a reconcile and its last write.

A slow API, a machine without CPU or a frozen process can put any time between two lines; every write is judged by its own moment.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from workslice_operator.kube_api import Kube, Object, Resource


class NotLeading(Exception):
    """The Lease is not held at the moment: nothing may be written."""


class Term(Protocol):
    """What the fence asks of the Lease."""

    @property
    def held(self) -> bool:
        """Whether a write may begin."""

    @property
    def over_at(self) -> float:
        """When somebody else may begin to write, by the running loop's clock."""


class FencedKube:
    """The API as reconcilers see it: fulfils kube_api.Kube.

    Beside what that raises, writes raise NotLeading when they may not begin, and TimeoutError when they could end too late.
    """

    def __init__(self, kube: Kube, term: Term) -> None:
        self._kube = kube
        self._term = term

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """See kube_api.Kube."""
        return await self._kube.get(resource, namespace, name)

    async def list(self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        """See kube_api.Kube."""
        return await self._kube.list(resource, namespace, labels, fields)

    async def apply(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        async with self._own_time():
            return await self._kube.apply(resource, manifest)

    async def apply_status(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        async with self._own_time():
            return await self._kube.apply_status(resource, manifest)

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        async with self._own_time():
            return await self._kube.create(resource, manifest)

    async def replace(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        async with self._own_time():
            return await self._kube.replace(resource, manifest)

    async def merge_patch(self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        """See kube_api.Kube."""
        async with self._own_time():
            await self._kube.merge_patch(resource, namespace, name, patch)

    async def pod_log(self, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
        """See kube_api.Kube."""
        return await self._kube.pod_log(namespace, pod, container, previous=previous, lines=lines)

    def _own_time(self) -> asyncio.Timeout:
        if not self._term.held:
            raise NotLeading("the lease is not held at the moment")
        return asyncio.timeout_at(self._term.over_at)
