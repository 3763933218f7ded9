"""Waits for a condition with a deadline."""

import asyncio
from collections.abc import Callable


async def eventually(holds: Callable[[], object], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - the state of code under test has no event to wait for
            await asyncio.sleep(0.005)
