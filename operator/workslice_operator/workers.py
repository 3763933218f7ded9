"""Runs the work queue with asyncio: N workers, one run per key at a time, back-off after failures."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from workslice_operator.work_queue import WorkQueue

Key = TypeVar("Key", bound=Hashable)

RUN_TIMEOUT = 60.0
"""Seconds after which a run is given up and retried: every request has its own shorter timeout, so this is a last resort."""

log = logging.getLogger(__name__)


class Workers(Generic[Key]):
    """Drives a queue. `handle` returns after how many seconds the key must run again (None: only when something happens)."""

    def __init__(
        self,
        queue: WorkQueue[Key],
        handle: Callable[[Key], Awaitable[float | None]],
        failed: Callable[[Key, Exception], None],
        count: int = 16,
    ) -> None:
        """`failed` is told of every error before the key backs off: it logs and counts. Most of a run is waiting for the API, so `count` of
        them go on at once.
        """
        self.queue = queue
        self._handle = handle
        self._failed = failed
        self._count = count
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._alive = 0

    @property
    def alive(self) -> bool:
        """All workers are running."""
        return self._alive == self._count

    def add(self, key: Key, urgent: bool = False) -> None:
        """Run the key as soon as a worker is free; urgent ones and the others take turns."""
        self.queue.add(key, asyncio.get_running_loop().time(), urgent)
        self._wake.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Run the key in that many seconds."""
        self.queue.add_after(key, seconds, asyncio.get_running_loop().time())
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self._work(), name=f"worker-{number}")

    async def _work(self) -> None:
        self._alive += 1
        try:
            while True:
                key = await self._next()
                await self._run_once(key)
        finally:
            self._alive -= 1

    async def _next(self) -> Key:
        loop = asyncio.get_running_loop()
        while (key := self.queue.take(loop.time())) is None:
            self._wake.clear()
            due = self.queue.next_due()
            if self._timer is not None:
                self._timer.cancel()
            # A timer of the loop, not a sleeping task: kopf would take a task made after its start for its own and cancel it.
            self._timer = loop.call_at(due, self._wake.set) if due is not None else None
            await self._wake.wait()
        return key

    async def _run_once(self, key: Key) -> None:
        loop = asyncio.get_running_loop()
        again: float | None = None
        try:
            async with asyncio.timeout(RUN_TIMEOUT):
                again = await self._handle(key)
        except Exception as error:
            self.queue.done(key, loop.time())
            self.queue.retry(key, loop.time())
            self._failed(key, error)
        except asyncio.CancelledError:
            self.queue.done(key, loop.time())
            raise
        else:
            self.queue.forget(key)
            self.queue.done(key, loop.time())
            if again is not None:
                self.queue.add_after(key, again, loop.time())
        self._wake.set()
