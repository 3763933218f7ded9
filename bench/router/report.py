"""The table of a run, and which targets it missed."""

import datetime
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from statistics import median
from typing import Any

from endurance import REQUESTS, WINDOWS, Endurance
from loads import LOADS, Load
from memory import OPEN_STREAMS, STOPPED_SECONDS
from routers import NGINX, RUST, WORKSLICE

MOST_MB, MOST_STOPPED_MB = 40.0, 2.0
MOST_CPU_GROWTH, MOST_MEMORY_GROWTH_MB = 0.05, 1.0
"""Over a whole run: less than the windows differ by chance."""
ENGINE = "engine"
"""The engines without a router."""


@dataclass(frozen=True)
class Row:
    """One load: medians over the rounds, by router."""

    load: str
    per: str
    cpu_us: dict[str, float]
    first_byte_ms: dict[str, float]
    spread: dict[str, float]
    """Of the CPU time: largest less smallest round, in parts of the median."""


def row(load: Load, runs: dict[str, list[dict[str, float]]]) -> Row:
    cpu = {name: [one["cpu_us"] for one in rounds] for name, rounds in runs.items() if name != ENGINE}
    return Row(
        load.name,
        load.per.removesuffix("s"),
        {name: median(values) for name, values in cpu.items()},
        {name: median(one["first_median_ms"] for one in rounds) for name, rounds in runs.items()},
        {name: (max(values) - min(values)) / median(values) for name, values in cpu.items()},
    )


@dataclass
class Results:
    """What a run has found so far."""

    rows: list[Row]
    versions: dict[str, str]
    open_mb: dict[str, float] = field(default_factory=dict)
    stopped_mb: dict[str, float] = field(default_factory=dict)
    endurance: Endurance | None = None
    """Measured last."""


def checks(results: Results) -> list[tuple[str, float, float]]:
    """Every target: what it says, the figure and the most that it may be."""
    found: list[tuple[str, float, float]] = []
    for load, one in zip(LOADS, results.rows, strict=True):
        ours = one.cpu_us[WORKSLICE]
        if load.times_nginx is not None:
            found.append((f"{load.name}: CPU / nginx's", ours / one.cpu_us[NGINX], load.times_nginx))
        if load.times_rust is not None:
            found.append((f"{load.name}: CPU / {RUST}'s", ours / one.cpu_us[RUST], load.times_rust))
        if load.most_us is not None:
            found.append((f"{load.name}: CPU, us", ours, load.most_us))
        if load.added_first_byte_ms is not None:
            added = one.first_byte_ms[WORKSLICE] - one.first_byte_ms[ENGINE]
            found.append((f"{load.name}: added to the first byte, ms", added, load.added_first_byte_ms))
    if (stopped := results.stopped_mb.get(WORKSLICE)) is not None:
        found.append((f"memory for a reader stopped {STOPPED_SECONDS:g} s, MB", stopped, MOST_STOPPED_MB))
    if (streams := results.open_mb.get(WORKSLICE)) is not None:
        found.append((f"memory with {OPEN_STREAMS:,} open streams, MB", streams, MOST_MB))
    if (endurance := results.endurance) is not None:
        found.append((f"growth of CPU / nginx's over {REQUESTS:,} requests", endurance.cpu_growth, MOST_CPU_GROWTH))
        memory = endurance.memory_growth
        found.append((f"growth of memory over {REQUESTS:,} requests, MB", memory, MOST_MEMORY_GROWTH_MB))
    return found


def heading(names: list[str]) -> str:
    """Of the table of CPU times."""
    return (
        f"\n{'CPU in us':34} {'per':8}" + "".join(f"{name:>13}" for name in names) + f"{'/ nginx':>9}{'/ ' + RUST:>15}"
    )


def line(one: Row) -> str:
    """Of the same table."""
    ours = one.cpu_us[WORKSLICE]
    return (
        f"{one.load:34} {one.per:8}"
        + "".join(f"{cpu:13.2f}" for cpu in one.cpu_us.values())
        + f"{ours / one.cpu_us[NGINX]:9.2f}{ours / one.cpu_us[RUST]:15.2f}"
    )


def show(results: Results) -> list[str]:
    """Print everything; returns a sentence for each missed target."""
    names, endurance = list(results.open_mb), results.endurance
    print("\n".join((heading(names), *map(line, results.rows))))
    print(f"\n{'first byte, median ms':43}" + "".join(f"{name:>13}" for name in (*names, ENGINE)))
    for one in results.rows:
        print(f"{one.load:43}" + "".join(f"{one.first_byte_ms[name]:13.2f}" for name in (*names, ENGINE)))
    print(f"\n{'memory, MB':43}" + "".join(f"{name:>13}" for name in names))
    print(f"{f'{OPEN_STREAMS:,} open streams':43}" + "".join(f"{value:13.1f}" for value in results.open_mb.values()))
    print(f"{'added for a reader that stops':43}" + "".join(f"{value:13.1f}" for value in results.stopped_mb.values()))
    if endurance is not None:
        print(
            f"\n{REQUESTS:,} requests in {WINDOWS} windows: CPU {endurance.cpu_us[0]:.1f} us at first, {endurance.cpu_us[-1]:.1f} at last; "
            f"memory {endurance.memory_mb[0]:.1f} and {endurance.memory_mb[-1]:.1f} MB"
        )
    print()
    missed = []
    for what, figure, most in checks(results):
        print(f"{'ok    ' if figure <= most else 'MISSED'} {what}: {figure:.3g} (at most {most:g})")
        if figure > most:
            missed.append(f"{what}: {figure:.3g}, target at most {most:g}")
    return missed


def document(results: Results) -> dict[str, Any]:
    """The same for machines."""
    endurance = results.endurance
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {
            "uvloop": version("uvloop"),
            "httptools": version("httptools"),
            **results.versions,
        },
        "loads": [asdict(one) for one in results.rows],
        "open_streams_mb": results.open_mb,
        "stopped_reader_mb": results.stopped_mb,
        "endurance": endurance
        and {
            **asdict(endurance),
            "requests": REQUESTS,
            "cpu_growth": endurance.cpu_growth,
            "memory_growth": endurance.memory_growth,
        },
        "targets": [
            {"target": what, "figure": figure, "at_most": most, "met": figure <= most}
            for what, figure, most in checks(results)
        ],
    }
