"""How many requests a router may have on one replica at once: less than the pool allows where others use it or where it is new. Pure."""

import math
from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = 1 << 30
WARM_SECONDS: Final = 20.0
"""After so long in rotation a replica is as good as the others, whatever it has done."""
FIRST_REQUESTS: Final = 4
"""A new replica gets so many at once."""
PER_ANSWER: Final = 2
"""And so many more for each that it has finished."""
_SLACK: Final = 1 / 24
"""Part of a replica's places by which a router with no share of the load yet may go beyond what is free, to get one."""
_ROUNDS: Final = 10
"""Looks at each replica of a pool over which shares are averaged."""


@dataclass(frozen=True, slots=True)
class LoadShare:
    """Whose load a pool's replicas have carried of late: requests on a replica, on average over looks at its gauges."""

    own: float = 0.0
    others: float = 0.0
    looks: int = 0

    @property
    def part(self) -> float:
        """Of the whole load that is this router's; all of it until somebody else shows."""
        return self.own / (self.own + self.others) if self.others > 0 else 1.0


NO_LOAD: Final = LoadShare()
"""Before anybody has sent anything."""


def seen_load(known: LoadShare, own: int, others: int, replicas: int) -> LoadShare:
    """After a look at one of so many replicas."""
    if not own and not others:
        return known  # an idle replica says nothing about shares
    looks = min(known.looks + 1, _ROUNDS * max(1, replicas))
    return LoadShare(known.own + (own - known.own) / looks, known.others + (others - known.others) / looks, looks)


def shared_limit(most: int, own: int, others: int, part: float) -> int:
    """Requests that this router may have on a replica which takes `most`, until the next look: what it has, and its part of what is free
    (or too much). Never less than one.

    All routers compute it by themselves, and together stay near `most`. One with a small part may take a little more than its part, so
    that parts become equal where all have more to send than there is room for.
    """
    free = most - own - others
    slack = 2 * _SLACK * most * (1 - part)
    return max(1, min(most, math.floor(own + free * part + slack + 0.5)))


def unseen_limit(most: int, part: float) -> int:
    """The same while nobody knows what others have there: this router's part of all places."""
    return max(1, min(most, math.floor(most * part + 0.5)))


def warm_limit(seconds: float, finished: int, most: int) -> int:
    """Requests that a replica may have which came into rotation so long ago and has finished so many."""
    if seconds >= WARM_SECONDS:
        return most
    return min(most, FIRST_REQUESTS + PER_ANSWER * finished + int(most * max(0.0, seconds) / WARM_SECONDS))
