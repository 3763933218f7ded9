"""The waiting line of one pool: fair between classes by weight, between callers of a class, then by deadline. Pure; the clock is
passed in.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from workslice_router.class_line import ClassLine, Waiter
from workslice_router.place_pace import PlacePace
from workslice_router.virtual_counters import VirtualCounters

STEPS: Final = 4
"""Each step of priority below zero doubles what a class gets and each above halves it, so many steps each way."""
_MOST_LINES: Final = 16
"""Lines of classes that are kept when nobody waits in them."""
_CLASSES_ASKED: Final = 64


def weight_exponent(priority: int) -> int:
    """A class's weight as a power of two."""
    return max(-STEPS, min(STEPS, -priority))


class PoolQueue:
    """Waiters that leave early are gone at once: only stale entries of heaps stay until they surface or are half of them."""

    __slots__ = ("_arrivals", "_by_expiry", "_classes", "_lines", "_pace", "_waiting", "size", "tokens")

    def __init__(self) -> None:
        self.size = 0
        """Bytes of all waiting bodies."""
        self.tokens = 0
        """Estimated tokens of all waiting requests."""
        self._waiting: dict[Waiter, None] = {}
        self._lines: dict[str, ClassLine] = {}
        self._classes = VirtualCounters()
        self._by_expiry: list[tuple[float, int, Waiter]] = []
        self._arrivals = 0
        self._pace = PlacePace()

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, waiter: Waiter) -> None:
        """Add a waiter at its place."""
        self._arrivals += 1
        waiter.arrival = self._arrivals
        if not self._waiting:
            self._pace.starts_at(waiter.enqueued)
        self._waiting[waiter] = None
        self.size += waiter.size
        self.tokens += waiter.tokens
        line = self._lines.get(waiter.class_name)
        if line is None:
            line = self._lines[waiter.class_name] = ClassLine()
        if not line.waiting:
            self._classes.enter(waiter.class_name, waiter.priority)
        line.push(waiter)
        heappush(self._by_expiry, (waiter.expires, waiter.arrival, waiter))

    def remove(self, waiter: Waiter) -> bool:
        """Take a waiter out wherever it stands; False when it was no longer waiting."""
        if waiter not in self._waiting:
            return False
        del self._waiting[waiter]
        self.size -= waiter.size
        self.tokens -= waiter.tokens
        line = self._lines[waiter.class_name]
        line.remove(waiter)
        if not line.waiting:
            self._classes.leave(waiter.class_name)
            if len(self._lines) > _MOST_LINES:
                del self._lines[waiter.class_name]
        if len(self._by_expiry) > 2 * len(self._waiting) + 64:
            self._by_expiry = [(one.expires, one.arrival, one) for one in self._waiting]
            heapify(self._by_expiry)
        return True

    def pop(self, fits: Callable[[Waiter], bool], now: float) -> Waiter | None:
        """Take out the next waiter for which `fits` holds, for a place: it looks a little past the first, in every class. Its class and
        its caller are charged for it; a class whose waiter has used more than half of its time counts as one step of priority lower.
        """
        found = self._classes.first(lambda name: self._lines[name].first(fits), _CLASSES_ASKED)
        if found is None:
            return None
        self._pace.place_given(now)
        aged = now - found.enqueued > found.expires - now
        found.charged = 1 << (STEPS + 1 - weight_exponent(found.priority) - aged)
        self.charge(found, found.tokens, found.cost)
        self.remove(found)
        return found

    def charge(self, waiter: Waiter, tokens: int, cost: int) -> None:
        """One that left for a place takes so many tokens more (fewer if negative), which cost its caller so much."""
        self._classes.charge(waiter.class_name, tokens * waiter.charged)
        line = self._lines.get(waiter.class_name)
        if line is not None:
            line.callers.charge(waiter.caller, cost)

    def pop_expired(self, now: float, until: Callable[[Waiter], float]) -> list[Waiter]:
        """Take out every waiter whose time is over, unless `until` says that it has become longer."""
        expired = []
        while self._by_expiry:
            expires, arrival, waiter = self._by_expiry[0]
            current = waiter in self._waiting and waiter.arrival == arrival
            if current and expires > now:
                break
            heappop(self._by_expiry)
            if not current:
                continue
            waiter.expires = until(waiter)
            if waiter.expires > now:
                heappush(self._by_expiry, (waiter.expires, arrival, waiter))
            else:
                self.remove(waiter)
                expired.append(waiter)
        return expired

    def pop_all(self) -> list[Waiter]:
        """Take out everyone, in order of arrival."""
        everyone = list(self._waiting)
        for waiter in everyone:
            self.remove(waiter)
        return everyone

    def last_of_the_greediest(self, caller: str) -> Waiter | None:
        """Who should go when the line is full and `caller` comes: the last request of the caller that has most waiting in a class, if
        that is at least two more than `caller` has in all.
        """
        own = sum(line.count(caller) for line in self._lines.values())
        longest = max(self._lines.values(), key=lambda line: line.most, default=None)
        return longest.last_of_the_greediest() if longest is not None and longest.most > own + 1 else None

    def oldest_wait(self, now: float) -> float:
        """Seconds that the first arrival has waited."""
        first = next(iter(self._waiting), None)
        return 0.0 if first is None else max(0.0, now - first.enqueued)

    def no_places_until(self, now: float) -> None:
        """Up to now no replica could have given a place: that says nothing about the pace of places."""
        self._pace.starts_at(now)

    def expected_wait(self, class_name: str, priority: int, caller: str, now: float) -> float | None:
        """Seconds until a request of this class and caller that joined now would have its turn, at the pace of late; None when too little
        is known. Everybody's requests count as equally large.
        """
        seconds = self._pace.seconds_each(now)
        return None if seconds is None else seconds * (1 + self._ahead(class_name, priority, caller))

    def _ahead(self, class_name: str, priority: int, caller: str) -> int:
        """How many go before a request that joins now."""
        line = self._lines.get(class_name)
        before = 0 if line is None else line.count_up_to(line.count(caller) + 1)
        ahead = before
        exponent = weight_exponent(priority)
        for name, other_line in self._lines.items():
            if name != class_name and other_line.waiting:
                others = weight_exponent(self._classes.rank(name)) - exponent
                share = (before + 1) * 2.0**others
                ahead += min(other_line.waiting, int(share) if share >= 1 else 0)
        return ahead
