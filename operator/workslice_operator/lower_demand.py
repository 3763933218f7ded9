"""The most that demand asked for within a window that slides, kept as a few lines: pure.

Each line says that since a moment demand has not asked for more than so many replicas, and every further line is later and fewer. A pool
may shrink to the fewest of a line that is as old as the window.
"""

from collections.abc import Sequence
from datetime import datetime

from workslice_api.pool import MAX_LOWER_DEMANDS, LowerDemand
from workslice_operator.remembered_time import not_later


def asked(lower: Sequence[LowerDemand], wanted: int, now: datetime) -> list[LowerDemand]:
    """The lines after demand asked for `wanted` replicas, fewer than there are."""
    lines = [one.model_copy(update={"since": not_later(one.since, now)}) for one in lower]
    kept = [one for one in lines if one.replicas >= wanted]
    fewer = [one for one in lines if one.replicas < wanted]
    if fewer and not (kept and kept[-1].replicas == wanted):
        kept.append(fewer[0].model_copy(update={"replicas": wanted}))
    if not kept or kept[-1].replicas > wanted:
        kept.append(LowerDemand(since=now.isoformat(), replicas=wanted))
    # A line less is only a pool that shrinks later: the oldest tells when that begins, the newest how far it may go.
    return kept if len(kept) <= MAX_LOWER_DEMANDS else [*kept[: MAX_LOWER_DEMANDS - 1], kept[-1]]


def most_within(lower: Sequence[LowerDemand], window: float, now: datetime) -> int | None:
    """The most that was asked for in the last `window` seconds; None while that is as many as there are."""
    old = [one.replicas for one in lower if (now - datetime.fromisoformat(one.since)).total_seconds() >= window]
    return old[-1] if old else None


def claims_no_more(ours: Sequence[LowerDemand], theirs: Sequence[LowerDemand]) -> bool:
    """Whether whatever `ours` says follows from `theirs`: acting by ours shrinks no pool sooner."""
    return all(any(other.replicas <= one.replicas and _time(other) <= _time(one) for other in theirs) for one in ours)


def _time(one: LowerDemand) -> datetime:
    return datetime.fromisoformat(one.since)
