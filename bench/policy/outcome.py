"""What a run was like for those who asked, and how two policies compare over the same seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import mean, stdev

from simulation import Run
from workload import LONG, SHORT, Request

_T_95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
"""Student's t for a confidence of 95 %, by degrees of freedom."""


@dataclass(frozen=True)
class Outcome:
    """Seconds, but for the last three."""

    short_ttft_p50: float
    short_ttft_p90: float
    short_ttft_p99: float
    short_tpot_p50: float
    short_tpot_p99: float
    short_stall_p99: float
    long_ttft_p50: float
    long_ttft_p99: float
    tokens_per_second: float
    preemptions: float
    refused: float


def outcome(run: Run, warm_up: float, seconds: float) -> Outcome:
    """Of the requests that arrived after the warm-up; tokens are those of requests that ended until `seconds`."""
    of = {
        kind: [one for one in run.requests if one.kind == kind and one.arrival >= warm_up and one.finished]
        for kind in (SHORT, LONG)
    }
    first = {kind: sorted(one.first - one.arrival for one in them) for kind, them in of.items()}
    pace = sorted(pace_of(one) for one in of[SHORT] if one.answer > 1)
    done = [one for one in run.requests if warm_up <= one.finished <= seconds]
    return Outcome(
        quantile(first[SHORT], 0.5),
        quantile(first[SHORT], 0.9),
        quantile(first[SHORT], 0.99),
        quantile(pace, 0.5),
        quantile(pace, 0.99),
        quantile(sorted(one.stall for one in of[SHORT]), 0.99),
        quantile(first[LONG], 0.5),
        quantile(first[LONG], 0.99),
        sum(one.prompt + one.answer for one in done) / (seconds - warm_up),
        run.preemptions,
        run.refused,
    )


def pace_of(request: Request) -> float:
    """Seconds for each token after the first."""
    return (request.finished - request.first) / (request.answer - 1)


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def average(outcomes: Sequence[Outcome]) -> Outcome:
    return Outcome(*(mean(getattr(one, name) for one in outcomes) for name in Outcome.__dataclass_fields__))


@dataclass(frozen=True)
class Ratio:
    """Of one policy's number to another's, geometric mean over seeds, and where it lies with a confidence of 95 %."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    logs = [log(a / b) for a, b in zip(ours, theirs, strict=True)]
    middle = mean(logs)
    width = _T_95.get(len(logs) - 1, 1.96) * stdev(logs) / sqrt(len(logs)) if len(logs) > 1 else float("inf")
    return Ratio(exp(middle), exp(middle - width), exp(middle + width))
