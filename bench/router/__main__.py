"""What the router costs beside nginx and the Rust vllm-router, in one run on one machine: `python bench/router`.

Each stands on a core of its own in front of the same fake engines, and gets the same load in turns, so that ratios count: absolute
times say more about the machine. Prints a table and writes ../results/router.json and router.svg; with CHECK=1 a missed target ends
with status 1. The router is compiled, as in its image (docs/decisions/compiled-request-path.md); INTERPRETED=1 adds it as it runs from a
checkout, whose figures no target judges. REQUESTS=1000000 lengthens the last part, in which the router must not become slower or larger.
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from endurance import endure
from loads import LOADS
from measure import measure
from memory import growth_for_stopped_reader, with_open_streams
from plot import bar_chart
from report import ENGINE, Results, Row, document, heading, line, row, show
from routers import (
    INTERPRETED,
    NGINX,
    RUST,
    WORKSLICE,
    Running,
    cores,
    engines,
    nginx,
    router,
    router_python,
    vllm_router,
)

ROUNDS = int(os.environ.get("ROUNDS", "3"))
CONTESTANTS = (WORKSLICE, *([INTERPRETED] if os.environ.get("INTERPRETED") == "1" else []), NGINX, RUST)
SECONDS = os.environ.get("BENCH_SECONDS", "3")
RESULTS = Path(__file__).resolve().parents[1] / "results"


def main() -> None:
    versions = {
        "python": subprocess.run([router_python(), "-V"], check=True, capture_output=True, text=True).stdout.split()[1],
        NGINX: subprocess.run([nginx(), "-v"], check=True, capture_output=True, text=True)
        .stderr.strip()
        .rpartition("/")[2],
        RUST: next(vllm_router().glob("vllm_router-*.dist-info")).name.split("-")[1].removesuffix(".dist"),
    }
    core, others = cores()
    os.sched_setaffinity(0, {int(number) for number in others.split(",")})
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ports = stack.enter_context(engines(others))
        running = {name: stack.enter_context(router(name, ports, core, Path(folder))) for name in CONTESTANTS}
        direct = Running(ports[0], os.getpid())
        for load in LOADS:  # warm up: connections, buffers, what is learned
            for one in running.values():
                measure(load, one, others, "--seconds", "0.5")
        rows: list[Row] = []
        print(heading(list(running)), flush=True)
        for load in LOADS:
            found: dict[str, list[dict[str, float]]] = {name: [] for name in (*running, ENGINE)}
            for number in range(ROUNDS):
                print(f"{load.name}: round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
                for name, one in (*running.items(), (ENGINE, direct)):
                    found[name].append(measure(load, one, others, "--seconds", SECONDS))
            rows.append(row(load, found))
            print(line(rows[-1]), flush=True)
        results = Results(rows, versions)
        write(results)  # what is found so far is not lost with a part that fails
        for name, one in running.items():
            results.stopped_mb[name] = growth_for_stopped_reader(name, one)
            results.open_mb[name] = with_open_streams(name, one)
        write(results)
        results.endurance = endure(running, others)
    write(results)
    missed = show(results)
    if missed and os.environ.get("CHECK") == "1":
        raise SystemExit("missed targets:\n" + "\n".join(missed))


def write(results: Results) -> None:
    """The same for machines, and as a picture."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "router.json").write_text(json.dumps(document(results), indent=2) + "\n")
    bars = {f"{one.load}, per {one.per}": one.cpu_us for one in results.rows}
    (RESULTS / "router.svg").write_text(bar_chart("CPU in microseconds: shorter is better", bars))


if __name__ == "__main__":
    main()
