"""The keyed work queue, without I/O: what may run now, what waits, what failed how often. Semantics of client-go's workqueue.

A key is queued once however often it is added; a key added while it runs runs again afterwards; no key ever runs twice at once.
Beyond client-go, a key rests for a moment between two runs: a burst of events of one pool becomes two runs, and a quarrel with
another writer over one object cannot become a hot loop. And a key may be added as urgent: urgent keys and the others take turns, so that a
new spec does not wait behind what thousands of pods do, nor they behind thousands of new specs.
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

    def __init__(
        self, random: Callable[[], float], observer: QueueObserver | None = None, rest_seconds: float = 0.0
    ) -> None:
        """`random` returns numbers in [0, 1), as random.random does; `rest_seconds` lie between two runs of a key."""
        self._random = random
        self._rest = rest_seconds
        self._rests_until: dict[Key, float] = {}
        self._observer = observer or _Silent()
        self._lanes: dict[bool, deque[Key]] = {True: deque(), False: deque()}
        """The queued keys, urgent or not. One that became urgent while it was queued stands in both and counts in the first."""
        self._urgent: set[Key] = set()
        self._urgent_next = True
        self._queued_since: dict[Key, float] = {}
        self._running_since: dict[Key, float] = {}
        self._dirty: set[Key] = set()
        self._later: list[tuple[float, int, Key]] = []
        self._due: dict[Key, float] = {}
        self._sequence = 0
        self._failures: dict[Key, int] = {}

    def add(self, key: Key, now: float, urgent: bool = False) -> None:
        """Queue the key, unless it is queued already; while it runs, remember that it must run again."""
        newly_urgent = urgent and key not in self._urgent
        if newly_urgent:
            self._urgent.add(key)
        if key in self._running_since:
            self._due.pop(key, None)
            self._dirty.add(key)
        elif self._rests_until.get(key, now) > now:
            self._delay(key, self._rests_until[key])
        elif key not in self._queued_since:
            self._due.pop(key, None)
            self._queued_since[key] = now
            self._lanes[key in self._urgent].append(key)
            self._observer.added()
        elif newly_urgent:
            self._lanes[True].append(key)

    def add_after(self, key: Key, seconds: float, now: float) -> None:
        """Queue the key in that many seconds; of several such wishes the earliest counts."""
        if seconds <= 0:
            self.add(key, now)
            return
        if key not in self._queued_since:
            self._delay(key, max(now + seconds, self._rests_until.get(key, 0.0)))

    def take(self, now: float) -> Key | None:
        """The next key to run, or None; hand it back with `done`."""
        self._promote(now)
        for urgent in (self._urgent_next, not self._urgent_next):
            lane = self._lanes[urgent]
            while lane:
                key = lane.popleft()
                if key not in self._queued_since or urgent != (key in self._urgent):
                    continue  # it was taken from the other lane, or will be
                self._urgent_next = not urgent
                self._urgent.discard(key)
                self._observer.queued_for(now - self._queued_since.pop(key))
                self._running_since[key] = now
                return key
        return None

    def done(self, key: Key, now: float) -> None:
        """The run of a taken key ended; it is queued at once if it was added meanwhile."""
        self._observer.worked_for(now - self._running_since.pop(key))
        if self._rest:
            self._rests_until = {one: end for one, end in self._rests_until.items() if end > now}
            self._rests_until[key] = now + self._rest
        if key in self._dirty:
            self._dirty.remove(key)
            self.add(key, now)

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
        return len(self._queued_since) + len(self._dirty)

    def unfinished_seconds(self, now: float) -> float:
        """Sum over the running keys of how long they have been running."""
        return sum(now - since for since in self._running_since.values())

    def longest_running_seconds(self, now: float) -> float:
        """How long the longest running key has been running."""
        return max((now - since for since in self._running_since.values()), default=0.0)

    def _delay(self, key: Key, due: float) -> None:
        if self._due.get(key, due + 1) > due:
            self._due[key] = due
            self._sequence += 1
            heapq.heappush(self._later, (due, self._sequence, key))

    def _promote(self, now: float) -> None:
        while (due := self.next_due()) is not None and due <= now:
            _, _, key = heapq.heappop(self._later)
            del self._due[key]
            self.add(key, now)  # which delays it again if a run has ended meanwhile and the key rests
