"""Times of day in a pool's status, which another operator may have written by another clock. Pure."""

from datetime import datetime


def not_later(since: str, now: datetime) -> str:
    """`since`, or `now` if that is earlier: a clock that was ahead must not make a drain or a window last longer."""
    return since if datetime.fromisoformat(since) <= now else now.isoformat()
