"""Routing policies compared on eight slices in simulation: `python bench/policy`.

The router's own plan, admission and choice run against a model of vLLM engines on 3g.40gb slices of H100s, beside what other routers
do. Every policy gets the same requests, for several seeds. Prints tables, writes ../results/policy.json and plots; with CHECK=1 a
missed target ends with status 1. The model of the engines is an estimate: read ratios, not milliseconds.
"""

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from contestants import (
    CONTESTANTS,
    LEAST_REQUESTS,
    OURS,
    OURS_2,
    REPLICAS,
    SHARED,
    STRICT_3,
)
from engine_model import EngineSettings
from outcome import Outcome, average, outcome, paired
from plot import line_chart
from simulation import simulate
from workload import Traffic, requests

SEEDS = int(os.environ.get("SEEDS", "5"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "500"))
WARM_UP = 100.0
ESTIMATE_SPREAD = 0.065
"""As bench/classify measures it: 95 % of the estimates are within 13 % of the true size."""
RESULTS = Path(__file__).parents[1] / "results"
MAIN = Traffic(17)
LOADS = tuple(Traffic(rate) for rate in (10.0, 14.0, 17.0, 19.0, 20.0, 22.0))
DRIFTS = tuple(
    Traffic(*one) for one in ((40.0, 0.0005), (32.0, 0.02), (24.0, 0.05), (17.0, 0.1), (11.0, 0.2), (6.0, 0.4))
)
"""Rates for about equal work; the pools stay as they are."""
BURSTS = (Traffic(12, cv=5), Traffic(12, cv=5, apart=True))
COMPARED = (LEAST_REQUESTS, SHARED, STRICT_3, OURS_2, OURS)
SHORT_TTFT, SHORT_TPOT, LONG_TTFT = 0.5, 0.05, 12.0
"""Seconds at the 99th percentile: the service level that capacity is measured at."""

Results = dict[Traffic, dict[str, list[Outcome]]]


def name_of(traffic: Traffic) -> str:
    burst = "" if traffic.cv == 1 else f", CV {traffic.cv:g}{' in each class' if traffic.apart else ''}"
    return f"{traffic.rate:g} requests a second, {traffic.long_share:.4g} long{burst}"


def measure(results: Results, traffic: Traffic, names: Iterable[str]) -> None:
    row = results.setdefault(traffic, {})
    for name in names:
        if name in row:
            continue
        print(f"{name_of(traffic)}: {name}", file=sys.stderr, flush=True)
        one = CONTESTANTS[name]
        engines = [EngineSettings(long_prefill_threshold=one.long_prefill_threshold)] * REPLICAS
        row[name] = [
            outcome(
                simulate(requests(traffic, SECONDS, seed, ESTIMATE_SPREAD), engines, one.policy(seed)),
                WARM_UP,
                SECONDS,
            )
            for seed in range(1, SEEDS + 1)
        ]


def table(traffic: Traffic, row: dict[str, list[Outcome]]) -> None:
    print(f"\n{name_of(traffic)} ({SEEDS} seeds of {SECONDS:g} s)")
    print(
        f"{'':35} {'short first token, ms':^22} {'short, ms a token':^18} {'stall':>6} {'long first token, s':^20} {'tokens':>7} "
        f"{'pre-':>6} {'re-':>6}\n"
        f"{'policy':35} {'p50':>7} {'p90':>6} {'p99':>7} {'p50':>9} {'p99':>8} {'p99':>6} {'p50':>10} {'p99':>9} {'/s':>7} "
        f"{'empted':>6} {'fused':>6}"
    )
    for name, outcomes in row.items():
        one = average(outcomes)
        print(
            f"{name:35} {one.short_ttft_p50 * 1e3:7.0f} {one.short_ttft_p90 * 1e3:6.0f} {one.short_ttft_p99 * 1e3:7.0f} "
            f"{one.short_tpot_p50 * 1e3:9.1f} {one.short_tpot_p99 * 1e3:8.1f} {one.short_stall_p99 * 1e3:6.0f} "
            f"{one.long_ttft_p50:10.2f} {one.long_ttft_p99:9.1f} {one.tokens_per_second:7.0f} {one.preemptions:6.0f} {one.refused:6.0f}"
        )


def meets_service_level(outcomes: list[Outcome]) -> bool:
    one = average(outcomes)
    return one.short_ttft_p99 <= SHORT_TTFT and one.short_tpot_p99 <= SHORT_TPOT and one.long_ttft_p99 <= LONG_TTFT


def capacity(results: Results, name: str) -> float:
    """The largest load of the scan up to which the service level holds."""
    best = 0.0
    for traffic in LOADS:
        if not meets_service_level(results[traffic][name]):
            break
        best = traffic.rate
    return best


def compare(results: Results, traffic: Traffic, field: str, other: str) -> tuple[float, str]:
    row = results[traffic]
    ratio = paired([getattr(one, field) for one in row[OURS]], [getattr(one, field) for one in row[other]])
    return ratio.mean, str(ratio)


def targets(results: Results) -> list[tuple[str, str, bool]]:
    """What is wanted, what is measured, and whether that is enough."""
    got = []

    def at_most(what: str, traffic: Traffic, field: str, other: str, limit: float) -> None:
        ratio, text = compare(results, traffic, field, other)
        got.append((f"{what}: at most {limit:g} times {other}", text, ratio <= limit))

    at_most("short p99 first token", MAIN, "short_ttft_p99", LEAST_REQUESTS, 0.1)
    at_most("short p99 first token", MAIN, "short_ttft_p99", SHARED, 0.9)
    at_most("long p99 first token", MAIN, "long_ttft_p99", LEAST_REQUESTS, 1.0)
    ratio, text = compare(results, MAIN, "tokens_per_second", LEAST_REQUESTS)
    got.append(("tokens a second: as least requests, within 1 %", text, abs(ratio - 1) <= 0.01))
    reached = capacity(results, OURS)
    got.append(("requests a second at the service level: at least 19", f"{reached:g}", reached >= 19))
    for traffic in DRIFTS:
        at_most(f"short p99 first token, {name_of(traffic)}", traffic, "short_ttft_p99", SHARED, 1.3)
    for traffic in BURSTS:
        at_most(f"short p99 first token, {name_of(traffic)}", traffic, "short_ttft_p99", SHARED, 1.0)
    return got


def main() -> None:
    results: Results = {}
    measure(results, MAIN, CONTESTANTS)
    for traffic in (*LOADS, *DRIFTS, *BURSTS):
        measure(results, traffic, COMPARED)
    for traffic, row in results.items():
        table(traffic, row)
    print(
        f"\nLargest load of {', '.join(f'{one.rate:g}' for one in LOADS)} requests a second with short p99 first token <= {SHORT_TTFT} s, "
        f"short p99 <= {SHORT_TPOT * 1e3:g} ms a token and long p99 first token <= {LONG_TTFT:g} s:"
    )
    for name in COMPARED:
        print(f"  {name:35} {capacity(results, name):g}")
    print("\nRatios over the same seeds, with 95 % confidence:")
    verdicts = targets(results)
    for what, measured, met in verdicts:
        print(f"  {'met   ' if met else 'MISSED'} {what}: {measured}")
    write(results, verdicts)
    missed = [f"{what}: {measured}" for what, measured, met in verdicts if not met]
    if missed and os.environ.get("CHECK") == "1":
        raise SystemExit("missed targets:\n" + "\n".join(missed))


def write(results: Results, verdicts: list[tuple[str, str, bool]]) -> None:
    RESULTS.mkdir(exist_ok=True)
    rows = [
        {
            "traffic": asdict(traffic),
            "policy": name,
            "mean": asdict(average(outcomes)),
            "seeds": [asdict(one) for one in outcomes],
        }
        for traffic, row in results.items()
        for name, outcomes in row.items()
    ]
    document = {
        "seeds": SEEDS,
        "seconds": SECONDS,
        "rows": rows,
        "capacity": {name: capacity(results, name) for name in COMPARED},
        "targets": [{"target": what, "measured": measured, "met": met} for what, measured, met in verdicts],
    }
    (RESULTS / "policy.json").write_text(json.dumps(document, indent=1) + "\n")

    def p99(traffics: Iterable[Traffic]) -> dict[str, list[float]]:
        return {name: [average(results[one][name]).short_ttft_p99 * 1e3 for one in traffics] for name in COMPARED}

    for file, title, x_title, traffics, ticks in (
        (
            "load",
            "Short requests: p99 time to first token, ms",
            "requests a second, 10 % long",
            LOADS,
            [f"{one.rate:g}" for one in LOADS],
        ),
        (
            "drift",
            "Short requests: p99 time to first token, ms",
            "share of long requests, at about equal work; pools sized for 10 %",
            DRIFTS,
            [f"{one.long_share * 100:g} %" for one in DRIFTS],
        ),
    ):
        (RESULTS / f"policy-{file}.svg").write_text(line_chart(title, x_title, ticks, p99(traffics)))


if __name__ == "__main__":
    main()
