"""How patient the requests of a class are with an engine, and how soon their clients want a sign of life. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ClassTimes:
    """All in seconds; None where the class says nothing."""

    first_byte: float | None = None
    """Longest time from sending a request to an engine until its answer begins."""
    idle: float | None = None
    """Longest silence inside an answer."""
    keep_alive: float | None = None
    """A stream without a first event gets a comment this often."""


NO_TIMES: Final = ClassTimes()


def most_patient(times: Iterable[ClassTimes]) -> ClassTimes:
    """Of the pools of one class: the longest timeouts that any of them sets, so that none cuts what another allows, and the most
    frequent sign of life.
    """
    every = [one for one in times if one != NO_TIMES]
    if not every:
        return NO_TIMES
    return ClassTimes(
        max((one.first_byte for one in every if one.first_byte is not None), default=None),
        max((one.idle for one in every if one.idle is not None), default=None),
        min((one.keep_alive for one in every if one.keep_alive is not None), default=None),
    )
