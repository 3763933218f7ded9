"""When a pool without a ready replica may have its first one. Pure."""

from typing import Final

SOON: Final = 5.0
"""Seconds after which to ask again where nothing better is known, and at least."""


def seconds_to_first_replica(start_seconds: float | None, missed_since: float | None, now: float) -> float:
    """By how long replicas of the pool's profile usually take to start, from when a request was first missing one: that is what wakes a
    pool, and soon after the last replica has gone otherwise. Whoever is due already may come at any moment.
    """
    if start_seconds is None or missed_since is None:
        return SOON
    return max(SOON, missed_since + start_seconds - now)
