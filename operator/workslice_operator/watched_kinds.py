"""What the operator follows beside its own kinds: one watch per kind for the whole cluster, never one per pool."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from workslice_api.names import MANAGED_BY, MANAGED_BY_LABEL, POOL_LABEL
from workslice_operator.cached_kube import Watched
from workslice_operator.kept_fields import KEPT
from workslice_operator.keys import Key, pool_key
from workslice_operator.kind_watch import KindWatch
from workslice_operator.kube_api import CHILDREN, NODES, PODS, REPLICA_SETS, KubeWatch, Object, Refused, Resource
from workslice_operator.list_anew import pages
from workslice_operator.load_observed import INVENTORY_SECONDS
from workslice_operator.object_store import ObjectStore, pool_of
from workslice_operator.shared_read import SharedRead
from workslice_operator.slice_inventory import SliceInventory
from workslice_operator.watched_slices import WatchedSlices

log = logging.getLogger(__name__)

_OURS = f"{MANAGED_BY_LABEL}={MANAGED_BY},{POOL_LABEL}"


class WatchedKinds:
    """Their watches and stores."""

    def __init__(
        self,
        watch: KubeWatch,
        wake: Callable[[Key], None],
        cordons_changed: Callable[[frozenset[str]], None],
    ) -> None:
        """`wake` queues the key of the pool that an object belongs to."""
        self._wake = wake
        self._slices = WatchedSlices(cordons_changed)
        self._watch = watch
        self._live = SharedRead(self._count_slices, INVENTORY_SECONDS)
        self.inventory: SharedRead[SliceInventory | None] = SharedRead(self._read_inventory, 0.0)

        def follow(
            resource: Resource,
            labels: str,
            told: Callable[[Object, bool], None],
            stored: Callable[[Object, bool], None],
        ) -> KindWatch:
            return KindWatch(watch, resource, labels, ObjectStore(KEPT[resource], stored), told)

        self._watches = {
            **{resource: follow(resource, _OURS, self._child_changed, self._child_gone) for resource in CHILDREN},
            REPLICA_SETS: follow(REPLICA_SETS, _OURS, _nothing, _nothing),
            # Others' pods hold slices too. Slices follow the store, which learns also from reads; only what a watch tells first wakes.
            PODS: follow(PODS, "", self._child_changed, self._pod_stored),
            NODES: follow(NODES, "", _nothing, self._slices.node_changed),
        }

    @property
    def watched(self) -> Mapping[Resource, Watched]:
        """By kind."""
        return self._watches

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource, one in self._watches.items():
                group.create_task(one.run(), name=f"watch {resource.plural}")

    async def tried(self) -> None:
        """Returns once every kind has been listed and is followed, or could not be."""
        for one in self._watches.values():
            await one.tried.wait()

    async def _read_inventory(self) -> SliceInventory | None:
        if self._watches[PODS].fresh and self._watches[NODES].fresh:
            return self._slices.inventory()
        return await self._live.get()

    async def _count_slices(self) -> SliceInventory | None:
        """What the API has now; None when it does not let us read it."""
        counted = WatchedSlices(lambda _: None)
        try:
            for resource, seen in ((NODES, counted.node_changed), (PODS, counted.pod_changed)):
                async for page in pages(self._watch, resource):
                    for raw in page["items"]:
                        seen(raw, True)
                    del page  # while the next one is waited for
        except Refused as error:
            log.warning("free slices are unknown: %s", error)
            return None
        return counted.inventory()

    def _child_changed(self, raw: Object, there: bool) -> None:
        pool = pool_of(raw)
        if pool:
            self._wake(pool_key(raw["metadata"]["namespace"], pool))

    def _child_gone(self, raw: Object, there: bool) -> None:
        """Also what goes on in another pool or in none; of that the store alone knows where it was."""
        if not there:
            self._child_changed(raw, there)

    def _pod_stored(self, raw: Object, there: bool) -> None:
        self._slices.pod_changed(raw, there)
        self._child_gone(raw, there)


def _nothing(raw: Object, there: bool) -> None:
    pass
