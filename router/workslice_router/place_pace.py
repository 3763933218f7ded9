"""How often those who wait get a place, learned while somebody waits. Pure; the clock is passed in."""

from typing import Final

_HALF_LIFE: Final = 10.0
"""Seconds after which an observation counts half."""
_ENOUGH: Final = 3.0
"""Places from which on the pace is believed."""


class PlacePace:
    """Places and seconds of late. Time in which nobody waits says nothing: then it is requests that are rare, not places. Nor does the
    time of a start, which tells how long replicas take to come, not places.
    """

    __slots__ = ("_last", "_places", "_seconds")

    def __init__(self) -> None:
        self._places = 0.0
        self._seconds = 0.0
        self._last = float("-inf")

    def starts_at(self, now: float) -> None:
        """The time before counts no longer: nobody waited, or there was nothing that could have given a place."""
        self._fade(now)

    def place_given(self, now: float) -> None:
        """One of those who wait got a place."""
        since_last = max(0.0, now - self._last)
        self._fade(now)
        self._seconds += since_last
        self._places += 1

    def seconds_each(self, now: float) -> float | None:
        """Seconds from one place to the next, the time since the last one included; None when too little is known."""
        if self._places < _ENOUGH:
            return None
        return (self._seconds + max(0.0, now - self._last)) / self._places

    def _fade(self, now: float) -> None:
        kept = 0.5 ** (max(0.0, now - self._last) / _HALF_LIFE)
        self._places *= kept
        self._seconds *= kept
        self._last = now
