"""Real vLLM engines on two cores, shared or split by class: `python bench/real`.

Starts the embedded cluster when it is not up, installs Workslice, and sends the same short and long requests to each row's engines
(rows.py), one row after the other and all of them REPEATS times. Prints a table, writes ../results/real.json and a plot; with CHECK=1
a missed target ends with status 1. The engines run a model with random weights on the CPU: read ratios, not milliseconds.
"""

import json
import os
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

# The demo installs Workslice, the end-to-end tests know pools and processes, another bench draws.
sys.path.extend(str(Path(__file__).resolve().parents[2] / part) for part in ("", "e2e", "bench/policy"))

from demo.cluster_choice import need_embedded
from demo.cluster_client import Cluster
from demo.installation import answering_endpoint, helm_install, provide_images, start_cluster
from demo.waiting import NotYet, wait_until
from measured import Answered, Figures, figures, quantile, spread, table
from offered import LONG, SHORT, Kind, offered
from open_loop import LeastRequests, Target, run, target_of
from plot import line_chart
from rows import ENGINES, ROWS, Row
from running_engines import RunningEngine, leave, make_room, running

from workslice_api.names import ENGINE_PORT
from workslice_cluster import models
from workslice_cluster.cluster_error import ClusterError

REPEATS = int(os.environ.get("REPEATS", "3"))
SHORT_REQUESTS = int(os.environ.get("SHORT_REQUESTS", "320"))
RESULTS = Path(__file__).parents[1] / "results"
SHORTS = Kind(per_second=2.7, words=(20, 230), answer=(16, 48))
LONGS = Kind(per_second=0.2, words=(3600, 6200), answer=(16, 48))
WARM_UP = (Kind(2.0, SHORTS.words, SHORTS.answer), Kind(0.6, LONGS.words, LONGS.answer), 10)
"""Its requests are not measured: engines allocate, and the router learns its first numbers."""
TARGET = 10.0
"""How many times as long as B's the p99 of A's short requests' first token takes at least."""
MARKS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)

Runs = dict[Row, list[list[Answered]]]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(cluster: Cluster, image: str, endpoint: str) -> tuple[Runs, dict[Row, list[Figures]]]:
    """All rows, one after the other, so often."""
    runs: Runs = {row: [] for row in ROWS}
    measured: dict[Row, list[Figures]] = {row: [] for row in ROWS}
    for repeat in range(1, REPEATS + 1):
        requests = offered(SHORTS, LONGS, SHORT_REQUESTS, seed=repeat)
        for engines, rows in groupby(ROWS, key=lambda row: row.engines):
            say(f"repeat {repeat} of {REPEATS}: the engines of {engines.name} start")
            with running(cluster, image, engines) as started:
                for row in rows:
                    balancer = balancer_of(row, started, endpoint)
                    warm_up(balancer, f"{row.name} {repeat} before")
                    say(f"repeat {repeat} of {REPEATS}: {row.name}, {requests[-1].arrival:.0f} s: {row.what}")
                    answers = run(requests, balancer, f"{row.name} {repeat}")
                    peak = sum(one.cgroup.peak_mebibytes() for one in started)
                    runs[row].append(answers)
                    measured[row].append(figures(answers, ENGINES, peak))
                    say(table([(row.name, measured[row][-1:])]))
    return runs, measured


def balancer_of(row: Row, engines: Sequence[RunningEngine], endpoint: str) -> LeastRequests:
    direct = [Target(one.address, ENGINE_PORT, one.uid) for one in engines]
    return LeastRequests([target_of(endpoint)] if row.routed else direct, random.Random(row.name))


def warm_up(balancer: LeastRequests, title: str) -> None:
    attempts = 0

    def answered() -> None:
        nonlocal attempts
        attempts += 1
        try:
            run(offered(*WARM_UP, seed=0), balancer, f"{title} {attempts}")
        except SystemExit as failed:  # the router may not know the pool yet
            raise NotYet(str(failed)) from failed

    wait_until("the engines to answer", answered, seconds=60)


def ratios(measured: dict[Row, list[Figures]], other: Row, ours: Row) -> list[float]:
    """How many times as long short requests wait for their first token at p99, in each repetition."""
    return [a.short_first_p99 / b.short_first_p99 for a, b in zip(measured[other], measured[ours], strict=True)]


def report(runs: Runs, measured: dict[Row, list[Figures]]) -> list[str]:
    """Print and write everything; return the targets that were missed."""
    counts = {kind: sum(one.kind == kind for one in runs[ROWS[0]][0]) for kind in (SHORT, LONG)}
    print(f"\n{counts[SHORT]} short and {counts[LONG]} long requests in each row, {REPEATS} times")
    print(table([(row.name, measured[row]) for row in ROWS]))
    for row in ROWS:
        print(f"{row.name:>4}: {row.what}")
    by_name = {row.name: row for row in ROWS}
    compared = {name: sorted(ratios(measured, by_name[name], by_name["B"])) for name in ("A", "A+", "A+W", "C")}
    print("\nshort requests' first token at p99, as a multiple of B's:")
    for name, values in compared.items():
        print(f"  {name:4} {quantile(values, 0.5):6.2f}   from {values[0]:.2f} to {values[-1]:.2f}")
    write(runs, measured, compared)
    reached = quantile(compared["A"], 0.5)
    return [f"A's p99 is {reached:.1f} times B's, target {TARGET:g}"] if reached < TARGET else []


def write(runs: Runs, measured: dict[Row, list[Figures]], compared: dict[str, list[float]]) -> None:
    RESULTS.mkdir(exist_ok=True)
    lines = {
        row.name: [
            quantile(
                sorted(one.first - one.arrival for answers in runs[row] for one in answers if one.kind == SHORT), mark
            )
            for mark in MARKS
        ]
        for row in ROWS
    }
    document = {
        "repeats": REPEATS,
        "traffic": {SHORT: asdict(SHORTS), LONG: asdict(LONGS), "short_requests": SHORT_REQUESTS},
        "rows": [
            {
                **asdict(row),
                "kv_mebibytes": row.engines.kv_mebibytes,
                "runs": [asdict(one) for one in measured[row]],
                "spread": {name: asdict(one) for name, one in spread(measured[row]).items()},
                "short_first_quantiles": dict(zip(map(str, MARKS), lines[row.name], strict=True)),
            }
            for row in ROWS
        ],
        "short_first_p99_as_a_multiple_of_B": compared,
    }
    (RESULTS / "real.json").write_text(json.dumps(document, indent=1) + "\n")
    chart = line_chart(
        "Short requests: time to first token, ms",
        "percentile of the short requests of all repetitions",
        [f"{mark * 100:g}" for mark in MARKS],
        {name: [value * 1e3 for value in line] for name, line in lines.items()},
    )
    (RESULTS / "real.svg").write_text(chart)


def main() -> None:
    need_embedded("`make bench-real`")
    say("cluster, images and model")
    cluster = start_cluster()
    folder = models.ensure("slow").parent
    images = provide_images(cluster)
    make_room(cluster, folder)
    helm_install(cluster, images)
    endpoint = answering_endpoint(cluster)
    try:
        runs, measured = measure(cluster, images.engine, endpoint)
    finally:
        leave(cluster)
    missed = report(runs, measured)
    if missed and os.environ.get("CHECK") == "1":
        raise SystemExit("missed targets:\n" + "\n".join(missed))


if __name__ == "__main__":
    try:
        main()
    except ClusterError as error:
        raise SystemExit(f"error: {error}") from error
