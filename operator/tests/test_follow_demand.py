import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from eventually import eventually

from workslice_operator import follow_demand as module
from workslice_operator.follow_demand import follow_demand
from workslice_operator.keys import Key, pool_key

A, B = pool_key("shop", "a"), pool_key("shop", "b")


class Installation:
    """Routers that are asked for sleeping pools whenever somebody waits for it, and the pools that each reading wakes."""

    def __init__(self, *woken: frozenset[Key]) -> None:
        self.readings = 0
        self.looks = 0
        self.asked: Callable[[], bool] = lambda: True
        self._woken = list(woken)

    async def read(self) -> None:
        self.readings += 1

    async def asked_in_vain(self, until: float) -> bool:
        return self.asked()

    def demand_changed(self) -> None:
        self.looks += 1

    def any_asleep(self) -> bool:
        return True

    def wake_asleep(self) -> frozenset[Key]:
        return self._woken.pop(0) if self._woken else frozenset()


@asynccontextmanager
async def followed(of: Installation) -> AsyncIterator[None]:
    following = asyncio.create_task(follow_demand(of, of))
    try:
        await eventually(lambda: of.looks)
        for _ in range(50):  # whatever it does without waiting
            await asyncio.sleep(0)
        yield
    finally:
        following.cancel()


async def test_a_request_for_each_of_two_pools_that_sleep_is_seen_at_once() -> None:
    one = Installation(frozenset({A}), frozenset({B}))
    one.asked = iter([True, True, False]).__next__
    async with followed(one):
        assert (one.readings, one.looks) == (3, 1)


async def test_requests_that_wake_nothing_hasten_one_reading_a_look() -> None:
    one = Installation()
    async with followed(one):
        assert (one.readings, one.looks) == (2, 1)


async def test_a_pool_that_does_not_wake_hastens_two_readings_a_look() -> None:
    one = Installation(*[frozenset({A})] * 100)
    async with followed(one):
        assert (one.readings, one.looks) == (3, 1)


async def test_the_next_look_comes_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    one = Installation()
    async with followed(one):
        await eventually(lambda: one.looks > 2)
