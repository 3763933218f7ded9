"""How many requests of a pool may be tried again after a failure, so that retries never become the load that keeps it failing. Pure.

A bucket of permits: every request that is sent to the pool brings a tenth of one, every second a whole one (a lone request finds
one, too), and a retry takes one. It holds no more than what one replica runs at once, and a few: a replica that dies costs nobody a
request, however many it had, and beyond that at most one request in ten is a retry.
"""

from dataclasses import dataclass
from typing import Final

SHARE: Final = 0.1
"""Of all requests sent to a pool."""
PER_SECOND: Final = 1.0
SPARE: Final = 10
"""Permits beyond one replica's requests."""


@dataclass(eq=False, slots=True)
class RetryBudget:
    """The permits of one pool. Nothing is counted until a retry asks: requests that go well cost nothing."""

    spent: float = 0.0
    """How far the bucket is from full."""
    seen: int = 0
    """Requests sent to the pool when it was last looked at."""
    looked_at: float = 0.0

    def take(self, concurrent: int, sent: int, now: float) -> bool:
        """Whether a failed request may be tried again, and count it. One replica runs `concurrent` requests, the pool's replicas were
        sent `sent` so far (fewer than before when some have gone), and `now` is in seconds.
        """
        earned = SHARE * max(0, sent - self.seen) + PER_SECOND * max(0.0, now - self.looked_at)
        self.spent = max(0.0, self.spent - earned)
        self.seen, self.looked_at = sent, now
        if self.spent + 1 > concurrent + SPARE:
            return False
        self.spent += 1
        return True

    def give_back(self) -> None:
        """Nobody else could take the request: what was taken last was not used."""
        self.spent = max(0.0, self.spent - 1)
