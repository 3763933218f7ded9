"""What a run was like for those who asked, and what it cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev

from fleet import FleetRun
from outcome import pace_of, quantile

_T_95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 7: 2.36, 9: 2.26, 14: 2.14, 19: 2.09, 24: 2.06, 29: 2.05}
"""Student's t for a confidence of 95 %, by degrees of freedom; the next lower entry is used for those between."""


@dataclass(frozen=True)
class Outcome:
    """Of one run."""

    ttft_p50: float
    """Seconds."""
    ttft_p99: float
    within_a_second: float
    """Share of the first tokens."""
    within_pace: float
    """Share of the answers with at most 50 ms a token."""
    replica_hours: float
    """Every ready replica, those that drain included."""
    slice_hours: float
    """The same and the time in which replicas start."""
    moves: float
    """How often another size was asked for."""


def outcome_of(run: FleetRun) -> Outcome:
    """Of all requests; one that was never answered is an error."""
    if any(not one.finished for one in run.requests):
        raise RuntimeError("requests were lost")
    first = sorted(one.first - one.arrival for one in run.requests)
    return Outcome(
        quantile(first, 0.5),
        quantile(first, 0.99),
        mean(one <= 1.0 for one in first),
        mean(pace_of(one) <= 0.05 for one in run.requests if one.answer > 1),
        run.replica_hours,
        run.slice_hours,
        len(run.sizes) - 1,
    )


@dataclass(frozen=True)
class Mean:
    """Over seeds, and how far off it may be with a confidence of 95 %."""

    value: float
    either_side: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.either_side:.2f}"


def mean_of(values: Sequence[float]) -> Mean:
    if len(values) < 2:
        return Mean(values[0], float("inf"))
    freedom = len(values) - 1
    t = _T_95[max(one for one in _T_95 if one <= freedom)]
    return Mean(mean(values), t * stdev(values) / sqrt(len(values)))


def over_seeds(outcomes: Sequence[Outcome], field: str) -> Mean:
    return mean_of([getattr(one, field) for one in outcomes])
