"""Those of one request class who wait in a queue: fair between callers, and for each caller the earliest deadline first. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Final

from workslice_router.virtual_counters import VirtualCounters

_CALLERS_ASKED: Final = 16
_OF_EACH_ASKED: Final = 4
"""How far behind the first waiter a place may go that the first cannot use."""


@dataclass(eq=False, slots=True)
class Waiter:
    """One request that waits. Times are those of the clock passed to the queue."""

    class_name: str
    priority: int
    """Of its class: lower gets more."""
    caller: str
    """Who shares fairly with others: the name of an API key, or an address."""
    deadline: float
    """When it should have its place: the earliest of a caller goes first."""
    expires: float
    """When it has waited in vain."""
    enqueued: float
    size: int
    """Bytes of its body."""
    tokens: int
    """Its estimated work."""
    cost: int
    """What its caller is charged for it."""
    item: Any = None
    """What the owner of the queue keeps with it."""
    arrival: int = field(default=0, init=False)
    charged: int = field(default=0, init=False)
    """What its class was charged for each token, once it has left for a place."""


class ClassLine:
    """A line for each caller."""

    __slots__ = ("_counts", "_heaps", "callers", "waiting")

    def __init__(self) -> None:
        self.callers = VirtualCounters()
        self.waiting = 0
        self._counts: dict[str, int] = {}
        self._heaps: dict[str, list[tuple[float, int, Waiter]]] = {}

    def count(self, caller: str) -> int:
        """How many of a caller's requests wait."""
        return self._counts.get(caller, 0)

    def counts(self) -> Iterator[tuple[str, int]]:
        """The same of all callers that wait."""
        return iter(self._counts.items())

    def push(self, waiter: Waiter) -> None:
        """Add a waiter; its `arrival` is set."""
        caller = waiter.caller
        if caller not in self._counts:
            self._counts[caller], self._heaps[caller] = 0, []
            self.callers.enter(caller)
        self._counts[caller] += 1
        self.waiting += 1
        heappush(self._heaps[caller], (waiter.deadline, waiter.arrival, waiter))

    def removed(self, waiter: Waiter, waits: Callable[[Waiter], bool]) -> None:
        """A waiter has left; `waits` knows who has not."""
        caller = waiter.caller
        count = self._counts[caller] - 1
        self.waiting -= 1
        if not count:
            del self._counts[caller], self._heaps[caller]
            self.callers.leave(caller)
            return
        self._counts[caller] = count
        heap = self._heaps[caller]
        if len(heap) > 2 * count + 16:
            self._heaps[caller] = heap = [entry for entry in heap if waits(entry[2])]
            heapify(heap)

    def first(self, fits: Callable[[Waiter], bool], waits: Callable[[Waiter], bool]) -> Waiter | None:
        """Who is next among those for whom `fits` holds; it stays in line."""
        return self.callers.first(lambda caller: _first(self._heaps[caller], fits, waits), _CALLERS_ASKED)

    def last_of(self, caller: str, waits: Callable[[Waiter], bool]) -> Waiter:
        """The waiter of a caller that would be served last."""
        return max(entry for entry in self._heaps[caller] if waits(entry[2]))[2]


def _first(
    heap: list[tuple[float, int, Waiter]], fits: Callable[[Waiter], bool], waits: Callable[[Waiter], bool]
) -> Waiter | None:
    passed: list[tuple[float, int, Waiter]] = []
    found = None
    while heap and len(passed) < _OF_EACH_ASKED:
        entry = heappop(heap)
        if not waits(entry[2]):
            continue
        passed.append(entry)
        if fits(entry[2]):
            found = entry[2]
            break
    for entry in passed:
        heappush(heap, entry)
    return found
