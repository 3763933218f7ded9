"""A quantile of a long stream of whole numbers in bounded memory: counts in buckets that grow by a tenth, old ones fading. Pure."""

import math
from typing import Final

_GROWTH: Final = math.log(1.1)
_MOST_BUCKETS: Final = 256
"""The last one takes everything from about 4 * 10**10."""
_MEMORY: Final = 4000.0
"""When so many are counted, all counts are halved: what was seen long ago weighs ever less."""


class QuantileSketch:
    """Answers are at most a tenth too large, never too small."""

    __slots__ = ("_counts", "_total", "seen")

    def __init__(self) -> None:
        self.seen = 0
        """Numbers ever added."""
        self._counts: list[float] = []
        self._total = 0.0

    def add(self, number: int) -> None:
        """Count a number; below zero counts as zero."""
        bucket = min(_MOST_BUCKETS - 1, math.ceil(math.log(number) / _GROWTH) + 1) if number > 0 else 0
        counts = self._counts
        if bucket >= len(counts):
            counts.extend([0.0] * (bucket + 1 - len(counts)))
        counts[bucket] += 1
        self.seen += 1
        self._total += 1
        if self._total >= _MEMORY:
            self._counts = [count / 2 for count in counts]
            self._total /= 2

    def quantile(self, share: float) -> int:
        """The smallest bound that `share` of the numbers do not exceed; 0 before there is any."""
        above = (1 - share) * self._total
        for bucket in range(len(self._counts) - 1, -1, -1):
            above -= self._counts[bucket]
            if above < 0:
                return _largest(bucket)
        return 0


def _largest(bucket: int) -> int:
    return math.floor(math.exp((bucket - 1) * _GROWTH) + 1e-9) if bucket else 0
