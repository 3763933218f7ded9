"""Thirty engines are killed under load, one after the other: nothing that routers and operator hold has grown by it."""

import os
import signal
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from demo.installation import NAMESPACE as SYSTEM
from demo.installation import openai_client
from demo.load import Load
from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

import host_processes
from exposed_metrics import sample
from installed import Installation
from process_usage import held_by, memory_of
from router_accounts import in_rotation, router_pods, wait_until_accounts_are_zero
from scratch import Scratch
from watched_stream import WatchedStream
from workslice_api.names import OPERATOR_METRICS_PORT, ROUTER_ADMIN_PORT

pytestmark = pytest.mark.soak  # minutes of waiting on purpose: `make soak`

MODEL = "kills"
CYCLES, WARM_UP = 30, 10
API_SERVER, ENGINE_CORE = "serve_on_cpu.py", "VLLM::EngineCore"
LAST_WORD = "EngineCore encountered an issue"
"""What an engine whose core was killed answers to the requests that the core was running."""
IN_FLIGHT = 1
"""Of each kind: more of them would make engines start slower, not leave more behind by a kill."""
STREAMED_TOKENS = 4000
MOST_STREAMS = 4
REST_SECONDS = 20
"""Connections that nobody uses are closed after 5 s by the routers and after 15 s by the operator."""
MOST_GROWTH_KIB = 1024
"""From the middle third of the cycles to the last; 20 KiB a kill were measured, and single steps of 0.4 MiB by the allocator."""
MORE_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""So many may join later: asyncio's pool for looking up names starts its threads one by one and keeps them."""


@dataclass(frozen=True)
class Component:
    """A process of Workslice that must not grow."""

    kind: str
    process: host_processes.Process
    host: str
    port: int

    def held(self) -> dict[str, int]:
        """What it holds now; while something passes each number may be a little higher than at rest."""
        return held_by(self.process) | {"tasks": int(sample(self.host, self.port, f"workslice_{self.kind}_tasks"))}


@pytest.fixture(scope="module")
def pool(module_scratch: Scratch) -> Scratch:
    """A pool of two replicas."""
    module_scratch.profile(slice_profile="1g.10gb")
    module_scratch.pool(model=MODEL, replicas=2)
    module_scratch.wait_for("Ready", "True", "PoolReady", seconds=240)
    return module_scratch


@pytest.fixture
def components(installation: Installation) -> list[Component]:
    """All routers and the operator."""
    (operator,) = installation.cluster.objects("pods", SYSTEM, "app.kubernetes.io/component=operator")
    ports = [("router", pod, ROUTER_ADMIN_PORT) for pod in router_pods(installation.cluster)]
    return [
        Component(
            kind,
            host_processes.one_of_pod(pod["metadata"]["uid"], f"workslice_{kind}"),
            pod["status"]["podIP"],
            port,
        )
        for kind, pod, port in [*ports, ("operator", operator, OPERATOR_METRICS_PORT)]
    ]


def engines(pool: Scratch) -> list[dict[str, Any]]:
    """The pool's pods, the one whose engine has run for the longest time first."""

    def running_since(pod: dict[str, Any]) -> str:
        return str(pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"])

    return sorted(pool.pods(), key=running_since)


def run_of(pod: dict[str, Any]) -> tuple[str, int]:
    """One start of an engine: its pod's UID, and how often it was started there before."""
    return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]


def kill(pool: Scratch, victim: dict[str, Any]) -> str:
    """Kill the core of an engine, which then starts anew in its pod; the second time its API server, and replace the pod.

    A pod for each two kills, since the kubelet lets every further start wait longer. Returns what was killed.
    """
    first = run_of(victim)[1] == 0
    part = ENGINE_CORE if first else API_SERVER
    host_processes.one_of_pod(victim["metadata"]["uid"], part).signal(signal.SIGKILL)
    if not first:
        name = victim["metadata"]["name"]
        pool.cluster.kubectl("delete", "pod", name, "-n", pool.namespace, "--grace-period=1", "--wait=false")
    return part


def wait_until_replaced(pool: Scratch, victim: dict[str, Any]) -> None:
    """Wait until two replicas take requests again, and the run that was killed is not one of them."""

    def replaced() -> None:
        pods = pool.pods()
        ready = [pod for pod in pods if condition(pod, "Ready")["status"] == "True"]
        if len(pods) != 2 or len(ready) != 2 or run_of(victim) in map(run_of, pods):
            raise NotYet(f"{len(ready)} of {len(pods)} replicas are ready")
        if in_rotation(pool.cluster, f"{pool.namespace}/pool") != {pod["metadata"]["uid"] for pod in pods}:
            raise NotYet("both are ready, and a router does not send requests to both")

    wait_until("the killed replica to be replaced", replaced, seconds=180, every=0.5)


def leave_early(url: str) -> None:
    """Ask for a long answer and leave after its first piece."""
    body = {"model": MODEL, "prompt": "Count", "max_tokens": STREAMED_TOKENS, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{url}/completions", json=body, timeout=60, trust_env=False) as answer:
        next(answer.iter_lines(), None)


def kill_one(url: str, pool: Scratch) -> tuple[str, list[str]]:
    """Kill the engine that has run for the longest time under streams, and wait until it is replaced.

    Returns what was killed, and how the streams on it ended.
    """
    victim = engines(pool)[0]
    uid = victim["metadata"]["uid"]
    streams: list[WatchedStream] = []
    while len(streams) < MOST_STREAMS and not any(one.replica == uid for one in streams):
        streams.append(WatchedStream(url, MODEL, STREAMED_TOKENS).wait_for_start())
    leave_early(url)
    assert all(one.running for one in streams), "the answers are too short for this test"
    part = kill(pool, victim)
    cut = [one.ending() for one in streams if one.replica == uid]
    assert set(cut) <= {"error", "cut"}, "half an answer is not taken for a whole one"
    wait_until_replaced(pool, victim)
    assert {one.ending() for one in streams if one.replica != uid} <= {"done"}
    return part, cut


def at_rest(components: Iterable[Component]) -> dict[Component, dict[str, int]]:
    """The least that each component holds within some time without requests."""
    least = {one: one.held() for one in components}
    ends = time.monotonic() + REST_SECONDS

    def rested() -> None:
        update(least)
        if (left := ends - time.monotonic()) > 0:
            raise NotYet(f"{left:.0f} s are left")

    wait_until("the components to rest", rested, seconds=REST_SECONDS + 10, every=0.5)
    return least


def update(least: dict[Component, dict[str, int]]) -> None:
    for component, numbers in least.items():
        now = component.held()
        numbers.update({what: min(number, now[what]) for what, number in numbers.items()})


def wait_until_as_at_rest(before: dict[Component, dict[str, int]]) -> None:
    """Wait until each component holds no more of anything than it held before."""
    slack = {"threads": MORE_THREADS}
    least = {component: component.held() for component in before}

    def as_before() -> None:
        update(least)
        grown = [
            f"{what} of {component.kind}: {number}, not {before[component][what]}"
            for component, numbers in least.items()
            for what, number in numbers.items()
            if number > before[component][what] + slack.get(what, 0)
        ]
        if grown:
            raise NotYet("; ".join(grown))

    wait_until("everything to be as before", as_before, seconds=2 * REST_SECONDS, every=0.5)


def test_thirty_kills_leave_routers_and_operator_as_they_were(
    installation: Installation, pool: Scratch, components: list[Component], capsys: pytest.CaptureFixture[str]
) -> None:
    memory: dict[Component, list[int]] = {one: [] for one in components}
    failures: dict[str, list[str]] = {"questions": [], "streams": []}
    cut: list[str] = []

    def run(cycles: range) -> None:
        with (
            openai_client(installation.url) as client,
            Load(client, MODEL, in_flight=IN_FLIGHT, max_tokens=64, stream=False) as questions,
            Load(client, MODEL, in_flight=IN_FLIGHT, max_tokens=64, stream=True) as streams,
        ):
            for cycle in cycles:
                began = time.monotonic()
                part, endings = kill_one(installation.url, pool)
                cut.extend(endings)
                for one, looks in memory.items():
                    looks.append(memory_of(one.process))
                with capsys.disabled():
                    sizes = ", ".join(f"{one.kind} {looks[-1]} KiB" for one, looks in memory.items())
                    print(
                        f"kill {cycle + 1} of {CYCLES}: {part}, streams {endings}, back after "
                        f"{time.monotonic() - began:.1f} s; {sizes}; {len(questions.answers) + len(streams.answers)} answers"
                    )
        failures["questions"] += [one.error for one in questions.failures]
        failures["streams"] += [one.error for one in streams.failures]
        wait_until_accounts_are_zero(installation.cluster)

    run(range(WARM_UP))
    before = at_rest(components)
    run(range(WARM_UP, CYCLES))
    wait_until_as_at_rest(before)
    growth = {
        one: statistics.median(looks[2 * CYCLES // 3 :]) - statistics.median(looks[CYCLES // 3 : 2 * CYCLES // 3])
        for one, looks in memory.items()
    }
    with capsys.disabled():
        print(f"at rest {[(one.kind, numbers) for one, numbers in before.items()]}")
        print(f"growth in KiB {[(one.kind, grown) for one, grown in growth.items()]}; {failures}")
    assert max(growth.values()) <= MOST_GROWTH_KIB
    assert len(cut) >= CYCLES / 2, "too few of the kills met a stream"
    last_words = [one for one in failures["questions"] if LAST_WORD in one]
    assert failures["questions"] == last_words
    assert len(last_words) <= CYCLES * IN_FLIGHT
    assert len(failures["streams"]) <= CYCLES * IN_FLIGHT
