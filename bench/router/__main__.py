"""CPU per request and per streamed token of the router and of nginx, in one run on one machine: `python bench/router`.

Both stand in front of the same fake engine and get the same load, in turns, so that only their ratio counts: absolute times say more
about the machine. Prints a table and writes results/router.json; with CHECK=1 a missed target ends with status 1.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "3"))
TICKS = os.sysconf("SC_CLK_TCK")

POOLS = """
profiles:
- name: tiny
  spec:
    model: {{source: /models/tiny}}
    slice: {{profiles: [1g.10gb]}}
    memory: {{host: 2Gi}}
    workspace: {{maxTokens: 8192, maxConcurrent: 256}}
    engine: {{image: engine, version: 0.32.0}}
pools:
- name: short
  spec:
    profileRef: {{name: tiny}}
    model: tiny
    requestClass: {{name: short, maxTotalTokens: 8192}}
  replicas: ["127.0.0.1:{engine}"]
"""
NGINX = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 1000000; client_max_body_size 32m;
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 256; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port}; tcp_nodelay on;
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      proxy_read_timeout 300s;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Load:
    """One kind of traffic."""

    name: str
    arguments: tuple[str, ...]
    per: str
    """What the CPU time is divided by: requests or reads (a paced token is one read of the client)."""
    target: float
    """Most CPU that the router may take, as a multiple of nginx's."""


LOADS = (
    Load("answers", (), "requests", 5.0),
    Load("streams in a burst of 64", ("--stream", "--tokens", "64"), "requests", 4.0),
    Load(
        "streams, a token every 20 ms",
        ("--stream", "--tokens", "50", "--pause", "20", "--connections", "64"),
        "reads",
        2.0,
    ),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(name: str, command: list[str], port: int) -> Iterator[int]:
    """The process, from when its port answers; yields its id."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    said = process.communicate()[1].decode(errors="replace")
                    raise SystemExit(f"{name} did not start:\n{said}") from None
                time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()  # a killed nginx leaves its worker behind
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and its children so far."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / TICKS
        total += sum(cpu_seconds(int(child)) for child in (task / "children").read_text().split())
    return total


def memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def measure(load: Load, port: int, pid: int) -> dict[str, float]:
    before = cpu_seconds(pid)
    command = [sys.executable, str(HERE / "load.py"), "--port", str(port), "--seconds", str(SECONDS), *load.arguments]
    result: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if result["failures"]:
        raise SystemExit(f"{load.name}: {result['failures']:.0f} of {result['requests']:.0f} requests failed")
    return {**result, "cpu_us": (cpu_seconds(pid) - before) / result[load.per] * 1e6}


def main() -> None:
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        raise SystemExit("nginx is not installed: apt-get install nginx-light, then run this again")
    engine, ours, theirs, admin = free_port(), free_port(), free_port(), free_port()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "pools.yaml").write_text(POOLS.format(engine=engine))
        (folder / "nginx.conf").write_text(NGINX.format(engine=engine, port=theirs, folder=folder))
        stack.enter_context(
            running("the engine", [sys.executable, str(HERE / "fake_engine.py"), "--port", str(engine)], engine)
        )
        router = [
            sys.executable,
            "-m",
            "workslice_router",
            "--pools",
            str(folder / "pools.yaml"),
            "--host",
            "127.0.0.1",
        ]
        router += ["--port", str(ours), "--admin-port", str(admin), "--log-level", "warning"]
        contestants = {
            "workslice": (ours, stack.enter_context(running("the router", router, ours))),
            "nginx": (theirs, stack.enter_context(running("nginx", [nginx, "-c", str(folder / "nginx.conf")], theirs))),
        }
        rows: dict[str, dict[str, list[dict[str, float]]]] = {
            load.name: {one: [] for one in contestants} for load in LOADS
        }
        for number in range(ROUNDS):
            for load in LOADS:
                for one, (port, pid) in contestants.items():
                    print(f"round {number + 1} of {ROUNDS}: {load.name}: {one}", file=sys.stderr, flush=True)
                    rows[load.name][one].append(measure(load, port, pid))
        memory = {one: memory_mb(pid) for one, (_, pid) in contestants.items()}
    report(rows, memory)


def report(rows: dict[str, dict[str, list[dict[str, float]]]], memory: dict[str, float]) -> None:
    summary = []
    missed = []
    print(
        f"{'load':30} {'CPU us per':>12} {'workslice':>10} {'nginx':>8} {'ratio':>6} {'target':>7} {'first byte ms':>14} {'nginx':>8}"
    )
    for load in LOADS:
        cpu = {one: median(run["cpu_us"] for run in runs) for one, runs in rows[load.name].items()}
        first = {one: median(run["first_median_ms"] for run in runs) for one, runs in rows[load.name].items()}
        ratio = cpu["workslice"] / cpu["nginx"]
        per = "request" if load.per == "requests" else "token"
        print(
            f"{load.name:30} {per:>12} {cpu['workslice']:10.1f} {cpu['nginx']:8.1f} {ratio:6.2f} {load.target:7.2f} "
            f"{first['workslice']:14.2f} {first['nginx']:8.2f}"
        )
        summary.append(
            {"load": load.name, "cpu_us": cpu, "ratio": ratio, "target": load.target, "first_byte_ms": first}
        )
        if ratio > load.target:
            missed.append(f"{load.name}: {ratio:.2f} times nginx's CPU, target {load.target:g}")
    print(f"memory (PSS, MB): workslice {memory['workslice']:.0f}, nginx {memory['nginx']:.0f}")
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / "router.json").write_text(json.dumps({"rows": summary, "memory_mb": memory}, indent=2) + "\n")
    if missed and os.environ.get("CHECK") == "1":
        raise SystemExit("missed targets:\n" + "\n".join(missed))


if __name__ == "__main__":
    main()
