"""The sizes of the prompts that wait on a replica, and exact sums over them in a time that hardly grows with their number. Pure."""

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul
from typing import Final

_FEW: Final = 32
"""Up to so many are added up one by one, which then takes less than keeping sums."""


@dataclass(eq=False, slots=True)
class PromptSizes:
    """Sizes in tokens, each with an urgency, its weight in a second sum. A sum costs a search, and a change once a walk over all that
    are larger, when the next sum is asked for.
    """

    smallest_first: list[float] = field(default_factory=list)
    _urgencies: list[float] = field(default_factory=list)
    # Of the first n sizes, for every n up to the first change.
    _tokens: list[float] = field(default_factory=lambda: [0.0])
    _urgency: list[float] = field(default_factory=lambda: [0.0])
    _urgent_tokens: list[float] = field(default_factory=lambda: [0.0])

    def add(self, size: float, urgency: float) -> None:
        """One more."""
        place = bisect_right(self.smallest_first, size)
        self.smallest_first.insert(place, size)
        self._urgencies.insert(place, urgency)
        self._forget_from(place)

    def remove(self, size: float, urgency: float) -> None:
        """One less of those that were added with the same numbers."""
        place = bisect_right(self.smallest_first, size) - 1
        while self._urgencies[place] != urgency:  # the last one that fits: sums up to there stay
            place -= 1
        del self.smallest_first[place], self._urgencies[place]
        self._forget_from(place)

    def up_to(self, most: float) -> float:
        """The sum of all sizes, each counted up to `most`."""
        if len(self.smallest_first) <= _FEW:
            total = 0.0
            for size in self.smallest_first:
                total += size if size < most else most
            return total
        self._sum()
        place = bisect_right(self.smallest_first, most)
        return self._tokens[place] + (len(self.smallest_first) - place) * most

    def beside(self, size: float) -> tuple[float, float]:
        """What all sizes exceed `size` by, and the sum of all up to `size` times their urgencies."""
        longer = urgent = 0.0
        if len(self.smallest_first) <= _FEW:
            urgencies = self._urgencies
            for place, one in enumerate(self.smallest_first):
                if one > size:
                    longer += one - size
                    urgent += size * urgencies[place]
                else:
                    urgent += one * urgencies[place]
            return longer, urgent
        self._sum()
        place = bisect_right(self.smallest_first, size)
        longer = self._tokens[-1] - self._tokens[place] - (len(self.smallest_first) - place) * size
        return longer, self._urgent_tokens[place] + (self._urgency[-1] - self._urgency[place]) * size

    def _forget_from(self, place: int) -> None:
        if place + 1 < len(self._tokens):
            for sums in (self._tokens, self._urgency, self._urgent_tokens):
                del sums[place + 1 :]

    def _sum(self) -> None:
        known = len(self._tokens) - 1
        if known < len(self.smallest_first):
            sizes, urgencies = self.smallest_first[known:], self._urgencies[known:]
            self._tokens += accumulate(sizes, initial=self._tokens.pop())
            self._urgency += accumulate(urgencies, initial=self._urgency.pop())
            self._urgent_tokens += accumulate(map(mul, sizes, urgencies), initial=self._urgent_tokens.pop())
