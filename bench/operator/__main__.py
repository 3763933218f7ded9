"""The operator with many pools: `python bench/operator`, as root.

A control plane without nodes, fake nodes and pods (no containers), one real router, and the operator as a process with the chart's
rights. Makes POOLS pools (1,000) in NAMESPACES namespaces (50) with PODS pods (10,000) together, rests, changes pods, restarts the
operator and changes a profile. Prints a table, writes ../results/operator.json and a plot; with CHECK=1 a missed target ends with status 1.
KEEP=1 leaves the cluster up.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "policy"))

from api import Api, connected
from chart_processes import (
    ADMIN_SERVICE,
    Running,
    announce_router,
    free_port,
    install,
    kubeconfig,
    running,
    wait_for_port,
)
from churn import churn
from demo.installation import NAMESPACE
from fleet import Fleet, change_profile, make_pools, make_surroundings
from operator_metrics import Look, look, quantile
from plot import line_chart
from waits import deployments_of, rolling, unconverged, unready, until
from written import now, written_since

from workslice_cluster import components, daemons
from workslice_cluster.instance import Instance, from_environment
from workslice_cluster.prepare import prepare
from workslice_operator.demand import NUMBERS_SECONDS
from workslice_operator.rolling_pools import MOST_AT_ONCE

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
POOLS = int(os.environ.get("POOLS", "1000"))
FLEET = Fleet(POOLS, int(os.environ.get("NAMESPACES", "50")), int(os.environ.get("PODS", str(10 * POOLS))))
REST_SECONDS = float(os.environ.get("REST_SECONDS", "60"))
CHURN_SECONDS = float(os.environ.get("CHURN_SECONDS", "60"))
CHANGES_PER_MINUTE = 2000
PATIENCE = 600.0
CONTROLLERS = "kube-controller-manager"
_LOOK_SECONDS = 0.5
_POD_NETWORK = "10.206.0.0/16"
"""Addresses of the fake pods: this machine refuses connections to them at once."""


@dataclass
class Bench:
    api: Api
    instance: Instance
    folder: Path
    configuration: Path
    metrics_port: int

    @property
    def metrics(self) -> str:
        return f"http://127.0.0.1:{self.metrics_port}/metrics"

    def operator(self) -> Any:
        arguments = ["-m", "workslice_operator", f"--namespace={NAMESPACE}", f"--router-service={ADMIN_SERVICE}"]
        arguments += [
            f"--metrics-port={self.metrics_port}",
            "--router-selector=app=router",
            "--operator-selector=app=operator",
        ]
        return running("operator", self.folder, arguments, KUBECONFIG=str(self.configuration), POD_NAME="bench")

    async def look(self) -> Look:
        return await asyncio.to_thread(look, self.metrics)


async def measure(instance: Instance, administrators: str, folder: Path) -> dict[str, Any]:
    async with connected() as api:
        say(f"{FLEET.pools} pools, {FLEET.replicas_together} pods, {FLEET.nodes} nodes")
        await install(api)
        await make_surroundings(api, FLEET)
        bench = Bench(
            api, instance, folder, await kubeconfig(api, "operator", administrators, folder), free_port("127.0.0.1")
        )
        address, admin = instance.link_host_address, free_port(instance.link_host_address)
        router = [
            "-m",
            "workslice_router",
            f"--host={address}",
            f"--port={free_port(address)}",
            f"--admin-port={admin}",
            "--name=bench",
        ]
        await announce_router(api, address, admin)
        configuration = str(await kubeconfig(api, "router", administrators, folder))
        with (
            running("kubelets", folder, [str(HERE / "fake_kubelets.py")]),
            running("router", folder, router, KUBECONFIG=configuration) as its_router,
        ):
            wait_for_port(address, admin)
            return await phases(bench, its_router)


async def phases(bench: Bench, router: Running) -> dict[str, Any]:
    found: dict[str, Any] = {"pools": FLEET.pools, "pods": FLEET.replicas_together, "nodes": FLEET.nodes}
    with bench.operator() as operator:
        wait_for_port("127.0.0.1", bench.metrics_port)
        found |= await creation(bench, operator)
        found |= await rest(bench, operator, router)
        found |= await changes(bench, operator)
        found["memory_mb"] = operator.memory()
    found["start_seconds"], found["start_writes"] = None, None
    began = now()
    with bench.operator() as operator:
        found |= await start(bench, operator)
        found["start_writes"] = dict(written_since(bench.instance, began))
        found |= await profile_change(bench, operator)
        found["memory_after_start_mb"] = operator.memory()
    return found


async def creation(bench: Bench, operator: Running) -> dict[str, Any]:
    say("making the pools")
    began = time.monotonic()
    at = now()
    await make_pools(bench.api, FLEET)
    made = time.monotonic()
    cpu = operator.cpu_seconds()
    await until("children and status", lambda: unconverged(bench.api, FLEET), PATIENCE)
    converged = time.monotonic() - made
    found = {
        "make_seconds": made - began,
        "converge_seconds": converged,
        "converge_cpu_seconds": operator.cpu_seconds() - cpu,
    }
    say(f"made in {made - began:.1f} s, converged {converged:.1f} s later")
    await until("ready replicas", lambda: unready(bench.api, FLEET), PATIENCE)
    found |= {"ready_seconds": time.monotonic() - made, "ready_cpu_seconds": operator.cpu_seconds() - cpu}
    found["creation_writes"] = dict(written_since(bench.instance, at))
    found["creation_reconciles"] = (await bench.look()).value("workqueue_work_duration_seconds_count")
    say(f"all replicas ready after {found['ready_seconds']:.1f} s; memory {operator.memory()}")
    return found


async def rest(bench: Bench, operator: Running, router: Running) -> dict[str, Any]:
    say("at rest")
    await asyncio.sleep(NUMBERS_SECONDS + 5)  # numbers that moved last are written after so long
    await settled(bench)
    before, at, cpu, router_cpu, began = (
        await bench.look(),
        now(),
        operator.cpu_seconds(),
        router.cpu_seconds(),
        time.monotonic(),
    )
    await asyncio.sleep(REST_SECONDS)
    seconds = time.monotonic() - began
    found = {
        "rest_cpu_share": (operator.cpu_seconds() - cpu) / seconds,
        "rest_writes": dict(written_since(bench.instance, at)),
        "router_rest_cpu_share": (router.cpu_seconds() - router_cpu) / seconds,
        "router_memory_mb": router.memory(),
    }
    after = await bench.look()
    found["rest_reconciles"] = after.value("workqueue_work_duration_seconds_count") - before.value(
        "workqueue_work_duration_seconds_count"
    )
    return found


async def settled(bench: Bench, seconds: float = 5.0) -> None:
    """Returns when no more is reconciled than pools at rest need; gives up after a while, and the measurement tells."""
    deadline, count = time.monotonic() + 60, float("-inf")
    while time.monotonic() < deadline:
        done = (await bench.look()).value("workqueue_work_duration_seconds_count")
        if done - count <= max(1, FLEET.pools / 150 * seconds):
            return
        count = done
        await asyncio.sleep(seconds)


async def changes(bench: Bench, operator: Running) -> dict[str, Any]:
    say(f"{CHANGES_PER_MINUTE} pod changes a minute")
    before, at, cpu, began = await bench.look(), now(), operator.cpu_seconds(), time.monotonic()
    count = await churn(bench.api, CHANGES_PER_MINUTE, CHURN_SECONDS)
    seconds = time.monotonic() - began
    after = await bench.look()
    queued, worked = (quantile(before, after, f"workqueue_{one}_duration_seconds", 0.99) for one in ("queue", "work"))
    return {
        "changes_per_minute": count / seconds * 60,
        "change_p99_seconds": queued + worked,
        "change_queue_p99_seconds": queued,
        "change_work_p99_seconds": worked,
        "change_cpu_share": (operator.cpu_seconds() - cpu) / seconds,
        "change_writes": dict(written_since(bench.instance, at)),
        "change_reconciles": after.value("workqueue_work_duration_seconds_count")
        - before.value("workqueue_work_duration_seconds_count"),
    }


async def start(bench: Bench, operator: Running) -> dict[str, Any]:
    say("starting the operator with everything there")
    began = time.monotonic()
    wait_for_port("127.0.0.1", bench.metrics_port)
    deadline = began + 300
    while time.monotonic() < deadline:
        seen = await bench.look()
        idle = seen.value("workqueue_depth") + seen.value("workqueue_unfinished_work_seconds") == 0
        if idle and seen.value("workqueue_work_duration_seconds_count") >= FLEET.pools:
            break
        await asyncio.sleep(_LOOK_SECONDS)
    return {
        "start_seconds": time.monotonic() - began,
        "start_cpu_seconds": operator.cpu_seconds(),
        "start_memory_mb": operator.memory(),
    }


async def profile_change(bench: Bench, operator: Running) -> dict[str, Any]:
    await settled(bench)
    before = await deployments_of(bench.api)
    say(f"changing the profile of {len(before)} pools")
    began, most, line = time.monotonic(), 0, []
    await change_profile(bench.api)
    while time.monotonic() - began < PATIENCE:
        current, done = await rolling(bench.api, before)
        line.append((round(time.monotonic() - began, 1), current, done))
        most = max(most, current)
        if done == len(before):
            break
        await asyncio.sleep(1)
    return {
        "rolled_pools": line[-1][2],
        "of_pools": len(before),
        "roll_seconds": line[-1][0],
        "rolling_at_once": most,
        "rolling": line,
    }


def targets(found: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """What is wanted, what is measured, and whether that is enough."""
    writes = sum(found["rest_writes"].values())
    most = max(found["memory_mb"][1], found["memory_after_start_mb"][1])
    return [
        (
            "children applied, status current < 60 s after the pools exist",
            f"{found['converge_seconds']:.1f} s",
            found["converge_seconds"] < 60,
        ),
        ("at rest no write but the Lease's", f"{writes} in {REST_SECONDS:.0f} s", writes == 0),
        ("at rest < 3 % of a core", f"{found['rest_cpu_share']:.1%}", found["rest_cpu_share"] < 0.03),
        (
            f"{CHANGES_PER_MINUTE} pod changes a minute: reconcile p99 (wait and work) < 1 s",
            f"{found['change_p99_seconds']:.2f} s at {found['changes_per_minute']:.0f} a minute",
            found["change_p99_seconds"] < 1 and found["changes_per_minute"] > 0.95 * CHANGES_PER_MINUTE,
        ),
        ("memory <= 200 MB, at most", f"{most:.0f} MB", most <= 200),
        ("start with everything there < 15 s", f"{found['start_seconds']:.1f} s", found["start_seconds"] < 15),
        (
            f"a profile change rolls its {found['of_pools']} pools, at most {MOST_AT_ONCE} at once",
            f"{found['rolled_pools']} in {found['roll_seconds']:.0f} s, {found['rolling_at_once']} at once",
            found["rolled_pools"] == found["of_pools"] and found["rolling_at_once"] <= MOST_AT_ONCE,
        ),
    ]


def report(found: dict[str, Any]) -> None:
    print(f"\n{found['pools']} pools in {FLEET.namespaces} namespaces, {found['pods']} pods on {found['nodes']} nodes")
    for name, value in found.items():
        if name != "rolling":
            print(f"  {name:26} {value if not isinstance(value, float) else round(value, 3)}")
    print("\nTargets:")
    verdicts = targets(found)
    for what, measured, met in verdicts:
        print(f"  {'met   ' if met else 'MISSED'} {what}: {measured}")
    document = found | {
        "targets": [{"target": what, "measured": measured, "met": met} for what, measured, met in verdicts]
    }
    (RESULTS / "operator.json").write_text(json.dumps(document, indent=1) + "\n")
    line = found["rolling"]
    ticks = [f"{at:.0f}" if index % max(1, len(line) // 8) == 0 else "" for index, (at, _, _) in enumerate(line)]
    lines = {
        "rolling": [max(0.5, float(now)) for _, now, _ in line],
        "done": [max(0.5, float(done)) for _, _, done in line],
    }
    (RESULTS / "operator-rolling.svg").write_text(line_chart("Pools of a changed profile", "seconds", ticks, lines))
    missed = [f"{what}: {measured}" for what, measured, met in verdicts if not met]
    if missed and os.environ.get("CHECK") == "1":
        raise SystemExit("missed targets:\n" + "\n".join(missed))


def say(text: str) -> None:
    print(f"== {time.strftime('%H:%M:%S')} {text}", flush=True)


def give_way(component: str) -> None:
    """Kubernetes' controllers have the cores that the operator leaves: how fast they make pods is not what is measured."""
    instance = from_environment()
    process = daemons.process_of(components.find(instance, prepare(instance.cache).binaries, component))
    if process is not None:
        os.setpriority(os.PRIO_PROCESS, process.pid, 10)


def cluster(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "workslice_cluster", *words], check=True)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is cleared away
    os.environ.setdefault("WORKSLICE_CLUSTER_INSTANCE", "6")  # beside a cluster of tests or the demo
    cluster("down")
    cluster("up", "--control-plane-only")
    give_way(CONTROLLERS)
    # Connections to pods are refused here instead of leaving the machine.
    subprocess.run(["ip", "route", "replace", "local", _POD_NETWORK, "dev", "lo"], check=True)
    try:
        instance = from_environment()
        os.environ["KUBECONFIG"] = str(instance.kubeconfig)
        folder = RESULTS / "operator-run"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        report(asyncio.run(measure(instance, instance.kubeconfig.read_text(), folder)))
    finally:
        subprocess.run(["ip", "route", "del", "local", _POD_NETWORK, "dev", "lo"], check=False)
        if os.environ.get("KEEP") != "1":
            cluster("down")


if __name__ == "__main__":
    main()
