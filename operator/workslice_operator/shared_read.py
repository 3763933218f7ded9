"""One expensive read shared by many reconciles for a moment."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class SharedRead(Generic[Value]):
    """Reads when asked and the last value is older than `seconds`; askers at the same time share one read."""

    def __init__(self, read: Callable[[], Awaitable[Value]], seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._value: tuple[float, Value] | None = None

    async def get(self, fresh: bool = False) -> Value:
        """The value; `fresh` reads it now. Errors of the read are the caller's, and nothing is kept of them."""
        asked = asyncio.get_running_loop().time()
        async with self._lock:
            oldest = asked if fresh else asked - self._seconds
            if self._value is None or self._value[0] < oldest:
                started = asyncio.get_running_loop().time()
                self._value = (started, await self._read())
            return self._value[1]
