"""Keeps the objects of one kind as the API has them: lists them, then follows every change, for ever.

Beside what kopf does for pools and profiles: a list after an interruption tells of objects that went meanwhile, objects are kept small, and
an event costs a tenth.
"""

import asyncio
import logging
from collections.abc import Callable

from workslice_operator.kube_api import Gone, KubeError, KubeWatch, Object, Resource
from workslice_operator.list_anew import list_anew
from workslice_operator.object_store import ObjectStore

_PAUSE = 0.1
"""Before following again when the API has ended the watch, as it does from time to time."""
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 15.0

log = logging.getLogger(__name__)


class KindWatch:
    """The loop; `run` it until it is cancelled."""

    def __init__(
        self,
        kube: KubeWatch,
        resource: Resource,
        labels: str,
        store: ObjectStore,
        changed: Callable[[Object, bool], None],
    ) -> None:
        """`changed` gets each object that is new, changed in what is kept of it, or gone (then with False)."""
        self._kube = kube
        self._resource = resource
        self._labels = labels
        self.store = store
        self._changed = changed
        self.fresh = False
        """It hears of every change, or did a moment ago: the API ends watches now and then, more often those of a process that is busy, and
        the next one tells what came between. Before the first, while it must begin anew and while the API fails, the store may be old.
        """
        self.tried = asyncio.Event()
        """Set once it is fresh or has failed for the first time."""

    async def run(self) -> None:
        """Follow for ever; what the API refuses or fails is logged once and tried again."""
        version, backoff, complaint = "", _FIRST_BACKOFF, ""
        while True:
            try:
                if not version:
                    version = await self._list()
                async with self._kube.watch(self._resource, self._labels, version) as events:
                    self.fresh, backoff, complaint = True, _FIRST_BACKOFF, ""
                    self.tried.set()
                    async for kind, raw in events:
                        version = raw["metadata"]["resourceVersion"]
                        self._take(kind, raw)
                await asyncio.sleep(_PAUSE)
            except Gone:
                version, self.fresh = "", False  # nobody tells what came between
            except KubeError as error:
                if str(error) != complaint:
                    complaint = str(error)
                    log.warning("cannot watch %s now: %s", self._resource.plural, error)
                self.fresh = False
                self.tried.set()
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, _LONGEST_BACKOFF)

    def _take(self, kind: str, raw: Object) -> None:
        if kind == "DELETED":
            if self.store.remove(raw):
                self._changed(raw, False)
        elif kind != "BOOKMARK" and self.store.put(raw):
            self._changed(raw, True)

    async def _list(self) -> str:
        """The version from which to follow."""
        _, version = await list_anew(self.store, self._kube, self._resource, self._labels, self._changed)
        return version
