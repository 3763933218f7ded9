"""The waiting line of one pool: ordered by priority, deadline and arrival; the clock is passed in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Final

_LOOK_AHEAD: Final = 16
"""How far behind the first waiter a place may go that the first cannot use."""
_SMOOTHING: Final = 0.2
_LONGEST_INTERVAL: Final = 60.0


@dataclass(eq=False, slots=True)
class Waiter:
    """One request that waits. Lower priority goes first; times are those of the clock passed to the queue."""

    priority: int
    deadline: float
    enqueued: float
    size: int
    """Bytes of its body."""
    tokens: int
    """Its estimated work."""
    item: Any = None
    """What the owner of the queue keeps with it."""
    arrival: int = field(default=0, init=False)


class PoolQueue:
    """Waiters that leave early are gone at once: only a stale entry of the heap stays until it surfaces or half of the heap is stale."""

    __slots__ = ("_arrivals", "_by_deadline", "_by_order", "_interval", "_last_left", "_waiting", "size", "tokens")

    def __init__(self) -> None:
        self.size = 0
        """Bytes of all waiting bodies."""
        self.tokens = 0
        """Estimated tokens of all waiting requests."""
        self._waiting: dict[Waiter, None] = {}
        self._by_order: list[tuple[int, float, int, Waiter]] = []
        self._by_deadline: list[tuple[float, int, Waiter]] = []
        self._arrivals = 0
        self._interval: float | None = None
        self._last_left: float | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, waiter: Waiter) -> None:
        """Add a waiter at its place."""
        self._arrivals += 1
        waiter.arrival = self._arrivals
        self._waiting[waiter] = None
        self.size += waiter.size
        self.tokens += waiter.tokens
        heappush(self._by_order, (waiter.priority, waiter.deadline, waiter.arrival, waiter))
        heappush(self._by_deadline, (waiter.deadline, waiter.arrival, waiter))

    def remove(self, waiter: Waiter) -> bool:
        """Take a waiter out wherever it stands; False when it was no longer waiting."""
        if waiter not in self._waiting:
            return False
        del self._waiting[waiter]
        self.size -= waiter.size
        self.tokens -= waiter.tokens
        if len(self._by_order) > 2 * len(self._waiting) + 64 or len(self._by_deadline) > 2 * len(self._waiting) + 64:
            self._drop_stale()
        return True

    def pop(self, fits: Callable[[Waiter], bool]) -> Waiter | None:
        """Take out the first waiter for which `fits` holds, looking a little past the first one."""
        passed: list[tuple[int, float, int, Waiter]] = []
        found = None
        while self._by_order and len(passed) < _LOOK_AHEAD:
            entry = heappop(self._by_order)
            waiter = entry[3]
            if waiter not in self._waiting or waiter.arrival != entry[2]:
                continue
            if fits(waiter):
                found = waiter
                break
            passed.append(entry)
        for entry in passed:
            heappush(self._by_order, entry)
        if found is not None:
            self.remove(found)
        return found

    def pop_expired(self, now: float) -> list[Waiter]:
        """Take out every waiter whose deadline has passed."""
        expired = []
        while self._by_deadline:
            deadline, arrival, waiter = self._by_deadline[0]
            current = waiter in self._waiting and waiter.arrival == arrival
            if current and deadline > now:
                break
            heappop(self._by_deadline)
            if current:
                self.remove(waiter)
                expired.append(waiter)
        return expired

    def pop_all(self) -> list[Waiter]:
        """Take out everyone, in order of arrival."""
        everyone = list(self._waiting)
        for waiter in everyone:
            self.remove(waiter)
        return everyone

    def oldest_wait(self, now: float) -> float:
        """Seconds that the first arrival has waited."""
        first = next(iter(self._waiting), None)
        return 0.0 if first is None else max(0.0, now - first.enqueued)

    def place_came_free(self, now: float) -> None:
        """Learn from a finished request how often places come free."""
        if self._last_left is not None:
            interval = min(_LONGEST_INTERVAL, now - self._last_left)
            before = self._interval
            self._interval = interval if before is None else before + _SMOOTHING * (interval - before)
        self._last_left = now

    def expected_wait(self) -> float | None:
        """Seconds until a request that joined now would have its turn, at the pace of late; None when nothing is known."""
        return None if self._interval is None else self._interval * (len(self._waiting) + 1)

    def _drop_stale(self) -> None:
        self._by_order = [(one.priority, one.deadline, one.arrival, one) for one in self._waiting]
        self._by_deadline = [(one.deadline, one.arrival, one) for one in self._waiting]
        heapify(self._by_order)
        heapify(self._by_deadline)
