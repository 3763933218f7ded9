"""Autoscalers compared under demand that jumps, in simulation: `python bench/scaling`.

The operator's own scaling decision and the router's own queue run against a model of vLLM engines on 3g.40gb slices of H100s, beside what
KEDA, Kubernetes' and Knative's autoscalers do, and a fleet of a fixed size. All get the same requests, for SEEDS seeds. Prints a table,
writes ../results/scaling.json and plots; with CHECK=1 a missed target ends with status 1. The model of the engines is an estimate: read
ratios, not seconds.
"""

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean

sys.path.append(str(Path(__file__).resolve().parents[1] / "policy"))

from autoscaler_outcome import Outcome, outcome_of, over_seeds
from demand_profile import RATES, SECONDS, STAGE_SECONDS, constant_stages, profile
from dispatchers import BoundAtOnce, HeldByTheRouter
from fleet import START_REPLICAS, Autoscaler, Dispatcher, Fleet, FleetRun
from other_autoscalers import HorizontalPodAutoscaler, KnativePodAutoscaler, Static
from plot import line_chart
from shipped_autoscaler import ShippedAutoscaler

SEEDS = int(os.environ.get("SEEDS", "20"))
FIRST_SEED = 11
"""The fields of the pools below were chosen with others: 1, 2 and 101 to 106."""
RESULTS = Path(__file__).parents[1] / "results"
PLOT_SECONDS = 30


@dataclass(frozen=True)
class Contestant:
    """An autoscaler and the way in which requests reach its replicas."""

    autoscaler: Callable[[], Autoscaler]
    dispatcher: Callable[[int], Dispatcher]
    start: int = START_REPLICAS


def _bound(_: int) -> Dispatcher:
    return BoundAtOnce()


WITHOUT, WITH = "Workslice", "Workslice, headroom 3"
STATIC_FLEETS = (4, 5, 6)
CONTESTANTS = {
    "KEDA, waiting > 5": Contestant(lambda: HorizontalPodAutoscaler(lambda look: look.waiting, 5), _bound),
    "HPA, in flight 20": Contestant(lambda: HorizontalPodAutoscaler(lambda look: look.running, 20), _bound),
    "Knative, concurrency 20": Contestant(lambda: KnativePodAutoscaler(20, 0.0), _bound),
    "Knative, 20, delay 5 min": Contestant(lambda: KnativePodAutoscaler(20, 300.0), _bound),
    **{f"static {n}": Contestant(lambda n=n: Static(n), _bound, n) for n in STATIC_FLEETS},
    WITHOUT: Contestant(lambda: ShippedAutoscaler(targetPerReplica=5, scaleDownWindow="50s"), HeldByTheRouter),
    WITH: Contestant(lambda: ShippedAutoscaler(targetPerReplica=80, headroom=3, scaleDownWindow="1m"), HeldByTheRouter),
}
OTHERS = tuple(name for name in CONTESTANTS if name not in (WITHOUT, WITH))
FIRST_TOKEN_WITHOUT, HOURS_WITHOUT, FIRST_TOKEN_WITH = 2.0, 5.2, 0.5
"""Seconds at the 99th percentile, replica-hours."""
STEADY_RATES = (6.0, 18.0, 30.0)
STEADY_SECONDS, SETTLED_SECONDS = 3600.0, 600.0
MOST_MOVES = {WITHOUT: 1.0, WITH: 0.0}
"""In the rest of the hour. Of requests that come by chance none at all cannot be had where a rate lies at the edge of two sizes."""


def run_one(job: tuple[str, int]) -> tuple[Outcome, list[tuple[float, int]]]:
    name, seed = job
    run = _fleet(name, profile(seed), SECONDS, seed)
    return outcome_of(run), run.sizes


def steady_moves(job: tuple[str, float, int]) -> int:
    """Other sizes that were asked for from the tenth minute of an hour of the same rate on."""
    name, rate, seed = job
    run = _fleet(name, constant_stages((rate,), STEADY_SECONDS, seed), STEADY_SECONDS, seed)
    return sum(at > SETTLED_SECONDS for at, _ in run.sizes)


def _fleet(name: str, requests: list, seconds: float, seed: int) -> FleetRun:
    one = CONTESTANTS[name]
    return Fleet(requests, seconds, one.dispatcher(seed), one.autoscaler(), one.start).simulate()


def table(results: dict[str, list[Outcome]]) -> None:
    rates = " → ".join(f"{rate:g}" for rate in RATES)
    print(f"\n{rates} requests a second, {STAGE_SECONDS / 60:g} minutes each; mean of {SEEDS} seeds ± 95 % confidence")
    print(
        f"{'':26} {'first token, s':^24} {'within':>7} {'<= 50 ms':>8} {'replica-':>13} {'slice-':>7} {'':>6}\n"
        f"{'':26} {'p50':>6} {'p99':>17} {'1 s':>7} {'a token':>8} {'hours':>13} {'hours':>7} {'moves':>6}"
    )
    for name, outcomes in results.items():
        print(
            f"{name:26} {over_seeds(outcomes, 'ttft_p50').value:6.3f} {over_seeds(outcomes, 'ttft_p99')!s:>17} "
            f"{over_seeds(outcomes, 'within_a_second').value:7.1%} {over_seeds(outcomes, 'within_pace').value:8.1%} "
            f"{over_seeds(outcomes, 'replica_hours')!s:>13} {over_seeds(outcomes, 'slice_hours').value:7.2f} "
            f"{over_seeds(outcomes, 'moves').value:6.1f}"
        )


def targets(results: dict[str, list[Outcome]], moves: dict[str, dict[float, float]]) -> list[tuple[str, str, bool]]:
    """What is wanted, what is measured, and whether that is enough."""

    def value(name: str, field: str) -> float:
        return over_seeds(results[name], field).value

    good = [name for name in OTHERS if value(name, "ttft_p99") <= FIRST_TOKEN_WITHOUT]
    best = min(good, key=lambda name: value(name, "replica_hours"), default=None)
    limit = value(best, "replica_hours") if best else float("inf")
    return [
        (
            f"{WITHOUT}: p99 first token <= {FIRST_TOKEN_WITHOUT} s",
            str(over_seeds(results[WITHOUT], "ttft_p99")),
            value(WITHOUT, "ttft_p99") <= FIRST_TOKEN_WITHOUT,
        ),
        (
            f"{WITHOUT}: replica-hours <= {HOURS_WITHOUT}",
            str(over_seeds(results[WITHOUT], "replica_hours")),
            value(WITHOUT, "replica_hours") <= HOURS_WITHOUT,
        ),
        (
            f"{WITH}: p99 first token <= {FIRST_TOKEN_WITH} s",
            str(over_seeds(results[WITH], "ttft_p99")),
            value(WITH, "ttft_p99") <= FIRST_TOKEN_WITH,
        ),
        (
            f"{WITH}: replica-hours <= {limit:.2f}, those of {best} (the fewest of others with p99 <= {FIRST_TOKEN_WITHOUT} s)",
            str(over_seeds(results[WITH], "replica_hours")),
            value(WITH, "replica_hours") <= limit,
        ),
        *(
            (
                f"{name}: other sizes after ten minutes of a constant rate <= {most:g}",
                ", ".join(f"{n:g} at {rate:g}" for rate, n in moves[name].items()),
                max(moves[name].values()) <= most,
            )
            for name, most in MOST_MOVES.items()
        ),
    ]


def main() -> None:
    jobs = [(name, seed) for name in CONTESTANTS for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)]
    steady = [(name, rate, seed) for name in (WITHOUT, WITH) for rate in STEADY_RATES for seed in (1, 2)]
    results: dict[str, list[Outcome]] = {name: [] for name in CONTESTANTS}
    sizes: dict[str, list[tuple[float, int]]] = {}
    with ProcessPoolExecutor(int(os.environ.get("JOBS", "0")) or os.cpu_count()) as pool:
        for (name, seed), (outcome, moved) in zip(jobs, pool.map(run_one, jobs), strict=True):
            results[name].append(outcome)
            sizes.setdefault(name, moved)
            print(
                f"{name}, seed {seed}: p99 {outcome.ttft_p99:.2f} s, {outcome.replica_hours:.2f} h",
                file=sys.stderr,
                flush=True,
            )
        counted = list(pool.map(steady_moves, steady))
    table(results)
    moves: dict[str, dict[float, float]] = {}
    print("\nOther sizes asked for in the last 50 minutes of an hour of one rate (requests a second), mean of 2 seeds")
    print(f"{'':26} " + " ".join(f"{rate:>6g}" for rate in STEADY_RATES))
    for name in (WITHOUT, WITH):
        row = [
            mean(n for (who, at, _), n in zip(steady, counted, strict=True) if (who, at) == (name, rate))
            for rate in STEADY_RATES
        ]
        moves[name] = dict(zip(STEADY_RATES, row, strict=True))
        print(f"{name:26} " + " ".join(f"{one:6.1f}" for one in row))
    print("\nTargets:")
    verdicts = targets(results, moves)
    for what, measured, met in verdicts:
        print(f"  {'met   ' if met else 'MISSED'} {what}: {measured}")
    write(results, sizes, moves, verdicts)
    missed = [f"{what}: {measured}" for what, measured, met in verdicts if not met]
    if missed and os.environ.get("CHECK") == "1":
        raise SystemExit("missed targets:\n" + "\n".join(missed))


def write(
    results: dict[str, list[Outcome]],
    sizes: dict[str, list[tuple[float, int]]],
    moves: dict[str, dict[float, float]],
    verdicts: list[tuple[str, str, bool]],
) -> None:
    RESULTS.mkdir(exist_ok=True)
    document = {
        "seeds": SEEDS,
        "rates": RATES,
        "stage_seconds": STAGE_SECONDS,
        "rows": {name: [asdict(one) for one in outcomes] for name, outcomes in results.items()},
        "moves_at_rest": {name: {str(rate): n for rate, n in row.items()} for name, row in moves.items()},
        "targets": [{"target": what, "measured": measured, "met": met} for what, measured, met in verdicts],
    }
    (RESULTS / "scaling.json").write_text(json.dumps(document, indent=1) + "\n")
    times = range(0, int(SECONDS), PLOT_SECONDS)
    lines = {name: [float(_size_at(moved, at)) for at in times] for name, moved in sizes.items() if len(moved) > 1}
    ticks = [f"{at // 60}" if at % int(STAGE_SECONDS) == 0 else "" for at in times]
    chart = line_chart(f"Replicas asked for, seed {FIRST_SEED}", "minutes", ticks, lines)
    (RESULTS / "scaling-replicas.svg").write_text(chart)
    shares = {
        name: [one.ttft_p99 for one in sorted(outcomes, key=lambda one: one.ttft_p99)]
        for name, outcomes in results.items()
    }
    ticks = [str(place + 1) if (place + 1) % 5 == 0 or not place else "" for place in range(SEEDS)]
    chart = line_chart("p99 time to first token, s", "seeds, the best first", ticks, shares)
    (RESULTS / "scaling-first-token.svg").write_text(chart)


def _size_at(moved: list[tuple[float, int]], at: float) -> int:
    return [size for when, size in moved if when <= at][-1]


if __name__ == "__main__":
    main()
