"""Wakes all pools when a node is cordoned or uncordoned: the operator watches no nodes, whose heartbeats would cost more than this."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from workslice_operator.keys import Key
from workslice_operator.kube_api import NODES, Kube, KubeError

LOOK_SECONDS = 10.0

log = logging.getLogger(__name__)


class CordonWatch:
    """The loop and what it saw last."""

    def __init__(
        self,
        kube: Kube,
        refresh: Callable[[], Awaitable[object]],
        wake: Callable[[Key], None],
        pools: Callable[[], Iterable[Key]],
    ) -> None:
        """`refresh` reads the inventory that the pools share, so that none of them decides on an older one."""
        self._kube = kube
        self._refresh = refresh
        self._wake = wake
        self._pools = pools
        self._cordoned: frozenset[str] = frozenset()
        self._complained = False

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Look once. An API that does not answer changes nothing: the next look finds out."""
        try:
            nodes = await self._kube.list(NODES, fields="spec.unschedulable=true")
            cordoned = frozenset(node["metadata"]["name"] for node in nodes)
            if cordoned != self._cordoned:
                await self._refresh()
        except KubeError as error:
            if not self._complained:
                log.warning("cordoned nodes are not known now: %s", error)
            self._complained = True
            return
        self._complained = False
        if cordoned != self._cordoned:
            log.info("cordoned nodes: %s", ", ".join(sorted(cordoned)) or "none")
            self._cordoned = cordoned
            for key in self._pools():
                self._wake(key)
