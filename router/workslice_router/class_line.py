"""Those of one request class who wait in a queue: fair between callers, and for each caller the earliest deadline first. Pure."""

from collections.abc import Callable
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


class _CallerLine:
    """One caller's waiters by deadline; those who left stay in the heap until they surface or are half of it."""

    __slots__ = ("heap", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[Waiter, None] = {}
        self.heap: list[tuple[float, int, Waiter]] = []

    def remove(self, waiter: Waiter) -> None:
        del self.waiting[waiter]
        if len(self.heap) > 2 * len(self.waiting) + 16:
            self.heap = [(one.deadline, one.arrival, one) for one in self.waiting]
            heapify(self.heap)

    def first(self, fits: Callable[[Waiter], bool]) -> Waiter | None:
        passed: list[tuple[float, int, Waiter]] = []
        found = None
        while self.heap and len(passed) < _OF_EACH_ASKED:
            entry = heappop(self.heap)
            waiter = entry[2]
            if waiter not in self.waiting:
                continue
            passed.append(entry)
            if fits(waiter):
                found = waiter
                break
        for entry in passed:
            heappush(self.heap, entry)
        return found


class ClassLine:
    """A line for each caller. Nothing here takes longer because many callers wait, but for the logarithm."""

    __slots__ = ("_at_least", "_callers_of", "_lines", "callers", "waiting")

    def __init__(self) -> None:
        self.callers = VirtualCounters()
        self.waiting = 0
        self._lines: dict[str, _CallerLine] = {}
        self._callers_of: list[dict[str, None]] = [{}]
        """By how many of their requests wait."""
        self._at_least: list[int] = [0]
        """How many callers have so many waiting, or more."""

    @property
    def most(self) -> int:
        """What the caller has waiting that has most."""
        return len(self._at_least) - 1

    def count(self, caller: str) -> int:
        """How many of a caller's requests wait."""
        line = self._lines.get(caller)
        return 0 if line is None else len(line.waiting)

    def count_up_to(self, limit: int) -> int:
        """How many wait when no caller counts for more than `limit`."""
        return self.waiting if limit >= self.most else sum(self._at_least[1 : limit + 1])

    def push(self, waiter: Waiter) -> None:
        """Add a waiter; its `arrival` is set."""
        caller = waiter.caller
        line = self._lines.get(caller)
        if line is None:
            line = self._lines[caller] = _CallerLine()
            self.callers.enter(caller)
        line.waiting[waiter] = None
        heappush(line.heap, (waiter.deadline, waiter.arrival, waiter))
        self.waiting += 1
        count = len(line.waiting)
        if count > self.most:
            self._callers_of.append({})
            self._at_least.append(0)
        self._callers_of[count - 1].pop(caller, None)
        self._callers_of[count][caller] = None
        self._at_least[count] += 1

    def remove(self, waiter: Waiter) -> None:
        """A waiter has left."""
        caller = waiter.caller
        line = self._lines[caller]
        count = len(line.waiting)
        line.remove(waiter)
        self.waiting -= 1
        del self._callers_of[count][caller]
        self._at_least[count] -= 1
        if not self._at_least[count]:
            self._callers_of.pop()
            self._at_least.pop()
        if count > 1:
            self._callers_of[count - 1][caller] = None
        else:
            del self._lines[caller]
            self.callers.leave(caller)

    def first(self, fits: Callable[[Waiter], bool]) -> Waiter | None:
        """Who is next among those for whom `fits` holds; it stays in line."""
        return self.callers.first(lambda caller: self._lines[caller].first(fits), _CALLERS_ASKED)

    def last_of_the_greediest(self) -> Waiter:
        """Who came last of the requests of a caller that has most waiting."""
        caller = next(iter(self._callers_of[self.most]))
        return next(reversed(self._lines[caller].waiting))
