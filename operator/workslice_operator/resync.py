"""Lists pools and profiles from time to time: whatever an event failed to say is found out here."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from workslice_api.names import PROFILE_KIND
from workslice_operator.keys import Key, pool_key, profile_key
from workslice_operator.kube_api import KubeError
from workslice_operator.object_store import Name
from workslice_operator.plan import RESYNC_SECONDS

RETRY_SECONDS = 10.0
STALE_SECONDS = 3 * RESYNC_SECONDS

log = logging.getLogger(__name__)


class Resync:
    """The loop, and when it last succeeded."""

    def __init__(
        self,
        pools: Callable[[], Awaitable[Iterable[Name]]],
        profiles: Callable[[], Awaitable[Iterable[Name]]],
        add: Callable[[Key], None],
        known: Callable[[], Iterable[Key]],
    ) -> None:
        """`pools` and `profiles` list all of them through the API; `known` gives the keys that reconcilers remember: those that vanished
        unseen must be reconciled once more.
        """
        self._pools = pools
        self._profiles = profiles
        self._add = add
        self._known = known
        self._now = asyncio.Event()
        self._succeeded_at = asyncio.get_running_loop().time()

    @property
    def fresh(self) -> bool:
        """Whether it succeeded within three periods (or the process has not been running for so long)."""
        return asyncio.get_running_loop().time() - self._succeeded_at < STALE_SECONDS

    def soon(self) -> None:
        """Do it now: an outage may have hidden changes and left keys in long back-offs."""
        self._now.set()

    async def run(self, done: Callable[[], None]) -> None:
        """Resync for ever; `done` is called after each success."""
        everything = True
        while True:
            everything = everything or self._now.is_set()
            self._now.clear()
            wait = RETRY_SECONDS
            try:
                keys = await self._keys(everything)
            except KubeError as error:
                log.warning("resync failed: %s", error)
            else:
                for key in keys:
                    self._add(key)
                everything = False
                self._succeeded_at = asyncio.get_running_loop().time()
                done()
                wait = RESYNC_SECONDS
            try:
                async with asyncio.timeout(wait):
                    await self._now.wait()
            except TimeoutError:
                pass

    async def _keys(self, everything: bool) -> set[Key]:
        """Every profile, and every pool or those that came or went unseen: pools that are known are looked at as often by themselves."""
        there = {pool_key(*one) for one in await self._pools()}
        there |= {profile_key(name) for _, name in await self._profiles()}
        known = set(self._known())
        return there | known if everything else there ^ known | {one for one in there if one.kind == PROFILE_KIND}
