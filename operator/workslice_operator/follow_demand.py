"""Reads the routers every two seconds, and at once when one of them is asked for a pool that sleeps."""

import asyncio
from typing import Protocol

from workslice_operator.keys import Key

POLL_SECONDS = 2.0


class Signals(Protocol):
    """What routers say: `signals.py`."""

    async def read(self) -> None:
        """Ask every router."""

    async def asked_in_vain(self, until: float) -> bool:
        """Whether a router was asked for a pool that sleeps, before that time of the loop's clock."""


class Pools(Protocol):
    """Those who scale on it: `reconciler.py`."""

    def demand_changed(self) -> None:
        """Every pool looks at what was read."""

    def any_asleep(self) -> bool:
        """Whether a request may have to wake a pool."""

    def wake_asleep(self) -> frozenset[Key]:
        """Wake the pools that sleep and were asked for."""


async def follow_demand(signals: Signals, pools: Pools) -> None:
    """Until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await signals.read()
        pools.demand_changed()
        end = loop.time() + POLL_SECONDS
        # Depths are compared at looks two seconds apart: what is seen between them wakes pools that sleep and does no more. A reading
        # between two looks that wakes no further pool is the last one: a pool that cannot be woken now must not hasten the next.
        woken = frozenset[Key]()
        while pools.any_asleep() and await signals.asked_in_vain(end):
            await signals.read()
            asked = pools.wake_asleep()
            if asked <= woken:
                break
            woken |= asked
        await asyncio.sleep(end - loop.time())
