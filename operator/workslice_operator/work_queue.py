"""The keyed work queue, without I/O: what may run now, what waits, what failed how often. Semantics of client-go's workqueue.

A key is queued once however often it is added; a key added while it runs runs again afterwards; no key ever runs twice at once.
The caller passes the time (seconds of any monotonic clock) and drives it; `workers.py` does that with asyncio.
"""

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)

FIRST_BACKOFF = 0.5
LONGEST_BACKOFF = 300.0
JITTER = 0.2


class QueueObserver(Protocol):
    """Told what happens in a queue; the metrics are one."""

    def added(self) -> None:
        """A key was queued."""

    def retried(self) -> None:
        """A key failed and will run again after its backoff."""

    def queued_for(self, seconds: float) -> None:
        """A key was taken after waiting that long."""

    def worked_for(self, seconds: float) -> None:
        """A run ended after that long."""


class _Silent:
    def added(self) -> None: ...
    def retried(self) -> None: ...
    def queued_for(self, seconds: float) -> None: ...
    def worked_for(self, seconds: float) -> None: ...


class WorkQueue(Generic[Key]):
    """Keys to work on. Not thread-safe: one event loop owns it."""

    def __init__(self, random: Callable[[], float], observer: QueueObserver | None = None) -> None:
        """`random` returns numbers in [0, 1), as random.random does."""
        self._random = random
        self._observer = observer or _Silent()
        self._ready: deque[Key] = deque()
        self._queued_since: dict[Key, float] = {}
        self._running_since: dict[Key, float] = {}
        self._dirty: dict[Key, float] = {}
        self._later: list[tuple[float, int, Key]] = []
        self._due: dict[Key, float] = {}
        self._sequence = 0
        self._failures: dict[Key, int] = {}

    def add(self, key: Key, now: float) -> None:
        """Queue the key, unless it is queued already; while it runs, remember that it must run again."""
        self._due.pop(key, None)
        if key in self._running_since:
            if key not in self._dirty:
                self._dirty[key] = now
                self._observer.added()
        elif key not in self._queued_since:
            self._queued_since[key] = now
            self._ready.append(key)
            self._observer.added()

    def add_after(self, key: Key, seconds: float, now: float) -> None:
        """Queue the key in that many seconds; of several such wishes the earliest counts."""
        if seconds <= 0:
            self.add(key, now)
            return
        due = now + seconds
        if key in self._queued_since or self._due.get(key, due + 1) <= due:
            return
        self._due[key] = due
        self._sequence += 1
        heapq.heappush(self._later, (due, self._sequence, key))

    def take(self, now: float) -> Key | None:
        """The next key to run, or None; hand it back with `done`."""
        self._promote(now)
        if not self._ready:
            return None
        key = self._ready.popleft()
        self._observer.queued_for(now - self._queued_since.pop(key))
        self._running_since[key] = now
        return key

    def done(self, key: Key, now: float) -> None:
        """The run of a taken key ended; it is queued at once if it was added meanwhile."""
        self._observer.worked_for(now - self._running_since.pop(key))
        since = self._dirty.pop(key, None)
        if since is not None:
            self._queued_since[key] = since
            self._ready.append(key)

    def retry(self, key: Key, now: float) -> float:
        """Queue a failed key after its exponential backoff with jitter; returns the seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        backoff = min(FIRST_BACKOFF * 2.0 ** min(failures, 30), LONGEST_BACKOFF)
        seconds = backoff * (1 - JITTER + 2 * JITTER * self._random())
        self._observer.retried()
        self.add_after(key, seconds, now)
        return seconds

    def forget(self, key: Key) -> None:
        """The key succeeded: its next failure starts with the first backoff again."""
        self._failures.pop(key, None)

    def next_due(self) -> float | None:
        """When the earliest delayed key is due, or None."""
        while self._later and self._due.get(self._later[0][2]) != self._later[0][0]:
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    @property
    def depth(self) -> int:
        """Keys that wait to run now, those to run again after their current run included."""
        return len(self._ready) + len(self._dirty)

    def unfinished_seconds(self, now: float) -> float:
        """Sum over the running keys of how long they have been running."""
        return sum(now - since for since in self._running_since.values())

    def longest_running_seconds(self, now: float) -> float:
        """How long the longest running key has been running."""
        return max((now - since for since in self._running_since.values()), default=0.0)

    def _promote(self, now: float) -> None:
        while (due := self.next_due()) is not None and due <= now:
            _, _, key = heapq.heappop(self._later)
            self.add(key, now)
