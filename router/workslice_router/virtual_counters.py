"""Whose turn it is among those who share something: whoever has had least of it so far. Pure, in exact integers.

These are virtual token counters, as in "Fairness in Serving Large Language Models" (OSDI 2024): of two who both wait all the time
neither gets more than the other by more than about one request each. Who comes back after a pause is lifted to the least of those who
wait, so that nobody saves up turns; what somebody had too much of is remembered.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final, TypeVar

Found = TypeVar("Found")

MOST_REMEMBERED: Final = 1024
"""So many who do not wait are remembered with what they had."""


class VirtualCounters:
    """Those who wait, each with a counter of what it has had; O(log n) for each change."""

    __slots__ = ("_counters", "_current", "_entries", "_last_left", "_order", "_ranks", "_resting")

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}
        """Of those who wait."""
        self._ranks: dict[str, int] = {}
        self._resting: dict[str, int] = {}
        """Counters of those who do not."""
        self._last_left = 0
        self._entries = 0
        self._current: dict[str, int] = {}
        """The entry of each that counts; older ones stay in the heap until they surface."""
        self._order: list[tuple[int, int, int, str]] = []

    def __len__(self) -> int:
        return len(self._counters)

    def __contains__(self, key: str) -> bool:
        return key in self._counters

    def counter(self, key: str) -> int:
        """What `key`, which waits, has had."""
        return self._counters[key]

    def rank(self, key: str) -> int:
        """The rank that `key`, which waits, came with."""
        return self._ranks[key]

    def enter(self, key: str, rank: int = 0) -> None:
        """`key` begins to wait; among equals the lower rank goes first, then who was served longest ago."""
        floor = self._floor()
        self._ranks[key] = rank
        self._counters[key] = max(floor, self._resting.pop(key, floor))
        self._renew(key)

    def leave(self, key: str) -> None:
        """`key` waits no longer."""
        self._last_left = self._resting[key] = self._counters.pop(key)
        del self._current[key], self._ranks[key]
        if not self._counters:
            self._order.clear()
        if len(self._resting) > MOST_REMEMBERED:
            self._forget()

    def charge(self, key: str, amount: int) -> None:
        """`key` had this much, or was charged too much if it is negative; who is not known any more has no debts."""
        if key in self._counters:
            self._counters[key] += amount
            self._renew(key)
        elif key in self._resting:
            self._resting[key] += amount

    def first(self, attempt: Callable[[str], Found | None], most: int) -> Found | None:
        """What `attempt` finds for the first, or for one of the next of those who wait: `most` are asked. It must change nothing here."""
        passed: list[tuple[int, int, int, str]] = []
        found = None
        while self._order and len(passed) < most:
            entry = heappop(self._order)
            key = entry[3]
            if self._current.get(key) != entry[2]:
                continue
            passed.append(entry)
            found = attempt(key)
            if found is not None:
                break
        for entry in passed:
            heappush(self._order, entry)
        return found

    def _floor(self) -> int:
        """The least that one of those who wait has had; when nobody does, what the last of them had."""
        while self._order:
            counter, _, entry, key = self._order[0]
            if self._current.get(key) == entry:
                return counter
            heappop(self._order)
        return self._last_left

    def _renew(self, key: str) -> None:
        self._entries += 1
        self._current[key] = self._entries
        if len(self._order) > 2 * len(self._counters) + 64:
            self._order = [
                (self._counters[one], self._ranks[one], self._current[one], one) for one in self._counters if one != key
            ]
            heapify(self._order)
        heappush(self._order, (self._counters[key], self._ranks[key], self._entries, key))

    def _forget(self) -> None:
        """First those who would be lifted anyway, then those who left longest ago."""
        floor = self._floor()
        kept = {key: counter for key, counter in self._resting.items() if counter > floor}
        self._resting = dict(list(kept.items())[-MOST_REMEMBERED // 2 :])
