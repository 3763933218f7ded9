"""Waits for a condition with a deadline; what it waited for and what it saw last are in the error."""

import time
from collections.abc import Callable
from typing import TypeVar

from workslice_cluster.cluster_error import ClusterError

T = TypeVar("T")


class NotYet(Exception):
    """Raised by a look that does not see the wanted state; the text says what it sees instead."""


def wait_until(
    what: str,
    look: Callable[[], T],
    *,
    seconds: float,
    every: float = 1.0,
    tell: Callable[[str], None] | None = None,
) -> T:
    """Call `look` every `every` seconds until it returns instead of raising NotYet, and return its result.

    `tell` gets the text of what is seen, whenever that changes and every 20 s. Raises ClusterError after `seconds`.
    """
    deadline = time.monotonic() + seconds
    told, told_at = "", 0.0
    while True:
        try:
            return look()
        except NotYet as seen:
            text = str(seen)
        now = time.monotonic()
        if now >= deadline:
            raise ClusterError(f"waited {seconds:.0f} s in vain for {what}; last seen: {text}")
        if tell is not None and (text != told or now - told_at >= 20):
            told, told_at = text, now
            tell(text)
        time.sleep(every)
