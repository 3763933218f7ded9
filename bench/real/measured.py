"""What a run was like for those who asked, and how far its repetitions lie apart."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from statistics import mean, median

from offered import LONG, SHORT


@dataclass(frozen=True)
class Answered:
    """One request that was answered in full; times in seconds from the start of the run."""

    kind: str
    replica: str
    arrival: float
    """When it should be sent, which is when its wait begins, however late the load generator was."""
    first: float
    finished: float
    tokens: int
    """Of prompt and answer."""


@dataclass(frozen=True)
class Figures:
    """A row of the table; seconds, but for the last three."""

    short_mean: float
    short_p50: float
    short_p99: float
    short_first_p50: float
    short_first_p99: float
    long_first_p50: float
    long_first_p90: float
    long_p50: float
    tokens_per_second: float
    peak_mebibytes: float
    """Most memory of both engines' control groups, the peaks added."""
    busy: float
    """Share of the time in which an engine had a request, averaged over the engines."""


def figures(answers: Sequence[Answered], replicas: int, peak_mebibytes: float) -> Figures:
    """All figures of a run."""
    of = {kind: [one for one in answers if one.kind == kind] for kind in (SHORT, LONG)}
    short = sorted(one.finished - one.arrival for one in of[SHORT])
    first = {kind: sorted(one.first - one.arrival for one in them) for kind, them in of.items()}
    end = max(one.finished for one in answers)
    return Figures(
        short_mean=mean(short),
        short_p50=quantile(short, 0.5),
        short_p99=quantile(short, 0.99),
        short_first_p50=quantile(first[SHORT], 0.5),
        short_first_p99=quantile(first[SHORT], 0.99),
        long_first_p50=quantile(first[LONG], 0.5),
        long_first_p90=quantile(first[LONG], 0.9),
        long_p50=quantile(sorted(one.finished - one.arrival for one in of[LONG]), 0.5),
        tokens_per_second=sum(one.tokens for one in answers) / end,
        peak_mebibytes=peak_mebibytes,
        busy=busy_seconds(answers) / (replicas * end),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def busy_seconds(answers: Iterable[Answered]) -> float:
    """How long replicas had at least one request, summed over replicas."""
    total = 0.0
    until: dict[str, float] = {}
    for one in sorted(answers, key=lambda one: one.arrival):
        begin = max(one.arrival, until.get(one.replica, 0.0))
        if one.finished > begin:
            total += one.finished - begin
            until[one.replica] = one.finished
    return total


@dataclass(frozen=True)
class Spread:
    """One figure over the repetitions."""

    low: float
    middle: float
    high: float


def spread(runs: Sequence[Figures]) -> dict[str, Spread]:
    """Every figure's lowest, median and highest value."""
    values = {name: [asdict(run)[name] for run in runs] for name in Figures.__dataclass_fields__}
    return {name: Spread(min(them), median(them), max(them)) for name, them in values.items()}


_COLUMNS = (
    ("short_mean", "short mean", 1e3, "{:.0f}"),
    ("short_p50", "p50", 1e3, "{:.0f}"),
    ("short_p99", "p99", 1e3, "{:.0f}"),
    ("short_first_p50", "first token p50", 1e3, "{:.0f}"),
    ("short_first_p99", "p99, ms", 1e3, "{:.0f}"),
    ("long_first_p50", "long first token p50", 1.0, "{:.2f}"),
    ("long_first_p90", "p90", 1.0, "{:.2f}"),
    ("long_p50", "long p50, s", 1.0, "{:.2f}"),
    ("tokens_per_second", "tokens/s", 1.0, "{:.0f}"),
    ("peak_mebibytes", "memory, MiB", 1.0, "{:.0f}"),
    ("busy", "busy, %", 100.0, "{:.0f}"),
)


def table(rows: Sequence[tuple[str, Sequence[Figures]]]) -> str:
    """The medians of each row, and below them, where there are repetitions, the lowest and the highest values."""
    lines = [("row", *(title for _, title, _, _ in _COLUMNS))]
    for name, runs in rows:
        over = spread(runs)
        lines.append((name, *(text.format(over[key].middle * unit) for key, _, unit, text in _COLUMNS)))
        if len(runs) > 1:
            both = (
                f"{text.format(over[key].low * unit)}-{text.format(over[key].high * unit)}"
                for key, _, unit, text in _COLUMNS
            )
            lines.append(("", *both))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
