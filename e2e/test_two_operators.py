"""Two operators: one acts, the other takes over when it dies, hangs or leaves, and never do both act."""

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from demo.cluster_client import Cluster
from demo.installation import NAMESPACE as SYSTEM
from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

import host_processes
from installed import Installation
from router_accounts import wait_until_accounts_are_zero
from scratch import Scratch

TAKEOVER_SECONDS = 20
OPERATOR = "app.kubernetes.io/component=operator"
DEPLOYMENT = "deployment/workslice-operator"
METRICS_PORT = 8080


def operators(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The operators' pods that are not on their way out, by name: the identity under which each writes."""
    pods = cluster.objects("pods", SYSTEM, OPERATOR)
    return {pod["metadata"]["name"]: pod for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def leader(cluster: Cluster) -> str:
    """Name of the pod that holds the Lease."""
    return str(cluster.get("lease", "workslice-operator", SYSTEM)["spec"]["holderIdentity"])


def scale_operators(cluster: Cluster, count: int) -> None:
    cluster.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, f"--replicas={count}")

    def as_many() -> None:
        found = operators(cluster)
        ready = [name for name, pod in found.items() if condition(pod, "Ready")["status"] == "True"]
        if not (len(found) == len(ready) == count) or leader(cluster) not in found:
            raise NotYet(f"operators {list(found)}, ready {ready}, leader {leader(cluster)!r}")

    wait_until(f"{count} operators to be ready", as_many, seconds=90)


@pytest.fixture(scope="module")
def idle(module_scratch: Scratch) -> Scratch:
    """A pool that never finds a slice: how many replicas its Deployment has is all that these tests need."""
    module_scratch.profile()
    module_scratch.pool()
    module_scratch.wait_for("SlicesGranted", "False", "NoFreeSlice")
    return module_scratch


class Leaders:
    """A context in which every operator is asked all the time whether it leads: only who says yes writes."""

    def __init__(self, cluster: Cluster) -> None:
        self.most_at_once = 0
        self.seen: set[str] = set()
        self.rounds = 0
        self._addresses = {name: pod["status"]["podIP"] for name, pod in operators(cluster).items()}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Leaders":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_until_seen(self, operator: str) -> None:
        """Return once `operator` said that it leads: it may write sooner than it is next asked."""

        def said_so() -> None:
            if operator not in self.seen:
                raise NotYet(f"only {self.seen} said that they lead")

        wait_until(f"{operator} to say that it leads", said_so, seconds=TAKEOVER_SECONDS, every=0.1)

    def watch_on(self) -> None:
        """Return after ten more rounds, so that a change of leader at the very end is watched as well."""
        enough = self.rounds + 10

        def watched() -> None:
            if self.rounds < enough:
                raise NotYet(f"{enough - self.rounds} rounds to go")

        wait_until("ten more rounds", watched, seconds=TAKEOVER_SECONDS, every=0.1)

    def _watch(self) -> None:
        with httpx.Client(timeout=0.3, trust_env=False) as client:
            while not self._stop.wait(0.1):
                leading = {name for name, host in self._addresses.items() if self._leads(client, host)}
                self.most_at_once = max(self.most_at_once, len(leading))
                self.seen |= leading
                self.rounds += 1

    @staticmethod
    def _leads(client: httpx.Client, host: str) -> bool:
        try:
            text = client.get(f"http://{host}:{METRICS_PORT}/metrics").text
        except httpx.HTTPError:  # dead or frozen
            return False
        return "workslice_operator_leader 1.0" in text.splitlines()


@pytest.fixture
def two(installation: Installation, idle: Scratch) -> Iterator[Leaders]:
    """Two operators that are watched; one again afterwards."""
    scale_operators(installation.cluster, 2)
    try:
        with Leaders(installation.cluster) as leaders:
            yield leaders
            leaders.watch_on()
        assert leaders.most_at_once == 1, "two operators acted at once"
    finally:
        scale_operators(installation.cluster, 1)
    wait_until_accounts_are_zero(installation.cluster)


def actor_of_next_change(idle: Scratch, seconds: float) -> str:
    """Change the pool's size; return which operator wrote the Event about it, once the Deployment has that size too."""
    child = idle.cluster.get("deployment", "pool-engine", idle.namespace)
    before = int(child["spec"]["replicas"])
    began = time.monotonic()
    idle.cluster.kubectl("scale", "wspool", "pool", "-n", idle.namespace, f"--replicas={before + 1}")

    def acted() -> str:
        found = idle.cluster.get("deployment", "pool-engine", idle.namespace)["spec"]["replicas"]
        text = f"from {before} to {before + 1} replicas"
        events = idle.cluster.objects("events", idle.namespace)
        writers = {e["reportingInstance"] for e in events if e["message"].startswith(text)}
        if found != before + 1 or len(writers) != 1:
            raise NotYet(f"the Deployment has {found} replicas, Events by {writers}")
        return str(writers.pop())

    actor = wait_until("an operator to act", acted, seconds=seconds, every=0.3)
    print(f"{actor} acted after {time.monotonic() - began:.1f} s")
    return actor


def test_the_other_acts_within_20_seconds_after_the_leader_was_killed(
    installation: Installation, idle: Scratch, two: Leaders
) -> None:
    first = leader(installation.cluster)
    found = operators(installation.cluster)
    (other,) = found.keys() - {first}
    assert actor_of_next_change(idle, TAKEOVER_SECONDS) == first
    host_processes.one_of_pod(found[first]["metadata"]["uid"], "workslice_operator").signal(signal.SIGKILL)
    # Without its pod the kubelet would start it again, and it would go on under its own name before the Lease expires.
    installation.cluster.kubectl("delete", "pod", first, "-n", SYSTEM, "--force", "--grace-period=0")
    assert actor_of_next_change(idle, TAKEOVER_SECONDS) == other
    two.wait_until_seen(other)
    assert two.seen == {first, other}


def test_a_leader_that_hangs_is_replaced_and_writes_nothing_when_it_wakes_up(
    installation: Installation, idle: Scratch, two: Leaders
) -> None:
    first = leader(installation.cluster)
    found = operators(installation.cluster)
    (other,) = found.keys() - {first}
    frozen = host_processes.one_of_pod(found[first]["metadata"]["uid"], "workslice_operator")
    try:
        frozen.signal(signal.SIGSTOP)
        assert actor_of_next_change(idle, TAKEOVER_SECONDS) == other
    finally:
        frozen.signal(signal.SIGCONT)
    assert actor_of_next_change(idle, TAKEOVER_SECONDS) == other

    def started_anew() -> None:
        if host_processes.one_of_pod(found[first]["metadata"]["uid"], "workslice_operator").pid == frozen.pid:
            raise NotYet("the old process is there")

    wait_until("the one that lost the Lease to end", started_anew, seconds=30)
    assert actor_of_next_change(idle, TAKEOVER_SECONDS) == other


def test_a_leader_that_is_told_to_go_hands_over_at_once(
    installation: Installation, idle: Scratch, two: Leaders
) -> None:
    first = leader(installation.cluster)
    (other,) = operators(installation.cluster).keys() - {first}
    installation.cluster.kubectl("delete", "pod", first, "-n", SYSTEM, "--wait=false")
    assert actor_of_next_change(idle, 10) in operators(installation.cluster).keys() - {first}
    assert two.seen <= {first, other}
