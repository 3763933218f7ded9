"""Two operators: one acts, the other takes over when it dies, hangs, leaves or is updated, and never do both act.

The proof is the API server's audit log: every write of the operators' account, with the pod that made it and its times.
"""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from demo.cluster_client import Cluster
from demo.installation import NAMESPACE as SYSTEM
from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

import host_processes
from installed import Installation
from router_accounts import wait_until_accounts_are_zero
from scratch import Scratch
from workslice_cluster import audit_log, instance

TAKEOVER_SECONDS = 20
OPERATOR = "app.kubernetes.io/component=operator"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:workslice-operator"
DEPLOYMENT = "deployment/workslice-operator"


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


@pytest.fixture(scope="module")
def one_afterwards(installation: Installation, idle: Scratch) -> Iterator[None]:
    """One operator again after the tests that have two."""
    yield
    scale_operators(installation.cluster, 1)


@pytest.fixture
def two(installation: Installation, one_afterwards: None) -> Iterator[datetime]:
    """Two operators, since the time that it returns."""
    scale_operators(installation.cluster, 2)
    yield datetime.now(UTC)
    wait_until_accounts_are_zero(installation.cluster)


def writes_since(since: datetime) -> list[audit_log.Write]:
    """What the operators wrote to anything but the Lease, which a candidate must write to before it acts."""
    found = audit_log.writes_since(instance.from_environment(), ACCOUNT, since)
    return [write for write in found if write.resource != "leases"]


def who_acted_in_turn(since: datetime) -> list[str]:
    """The operators in the order in which they acted; each one's last write had ended before the next one's first began."""
    turns = audit_log.turns(writes_since(since))
    for turn in turns:
        lasted = (turn.ended - turn.began).total_seconds()
        print(f"{turn.pod}: {turn.writes} writes in {lasted:.1f} s")
    for before, after in pairwise(turns):
        print(f"{after.pod} began {(after.began - before.ended).total_seconds():.3f} s after {before.pod}'s last write")
        assert before.ended < after.began, f"{before} was still writing when {after} began"
    return [turn.pod for turn in turns]


def ask_for_one_more(idle: Scratch) -> int:
    """Change the pool's size and return the new one."""
    wanted = int(idle.cluster.get("wspool", "pool", idle.namespace)["spec"]["replicas"]) + 1
    idle.cluster.kubectl("scale", "wspool", "pool", "-n", idle.namespace, f"--replicas={wanted}")
    return wanted


def actor_of_next_change(idle: Scratch) -> str:
    """Change the pool's size; return which operator gave the Deployment that size."""
    began, since = time.monotonic(), datetime.now(UTC)
    wanted = ask_for_one_more(idle)

    def acted() -> str:
        found = idle.cluster.get("deployment", "pool-engine", idle.namespace)["spec"]["replicas"]
        about = ("deployments", idle.namespace, "pool-engine")
        writers = [w.pod for w in writes_since(since) if (w.resource, w.namespace, w.name) == about]
        if found != wanted or not writers:
            raise NotYet(f"the Deployment has {found} replicas, written by {writers}")
        return writers[-1]

    actor = wait_until("an operator to act", acted, seconds=TAKEOVER_SECONDS, every=0.3)
    print(f"{actor} acted after {time.monotonic() - began:.1f} s")
    return actor


def freeze_in_the_midst_of_its_work(idle: Scratch, leading: str, process: host_processes.Process) -> None:
    """Stop the leader right after its first write about a change: the others that belong to it are still to come."""
    with audit_log.path_of(instance.from_environment()).open() as log, ThreadPoolExecutor(1) as worker:
        log.seek(0, os.SEEK_END)
        asked = worker.submit(ask_for_one_more, idle)

        def wrote() -> None:
            writes = (line for line in log if not audit_log.is_read(line) and '"resource":"leases"' not in line)
            if not any(f'"{leading}"' in line for line in writes):
                raise NotYet("no write")

        wait_until(f"{leading} to begin its work", wrote, seconds=TAKEOVER_SECONDS, every=0.001)
        process.signal(signal.SIGSTOP)
        asked.result()


def test_a_rolling_update_hands_over_while_a_pool_changes_its_size(installation: Installation, idle: Scratch) -> None:
    since = datetime.now(UTC)
    first = leader(installation.cluster)
    assert actor_of_next_change(idle) == first
    installation.cluster.kubectl("rollout", "restart", DEPLOYMENT, "-n", SYSTEM)
    second = wait_until("the new operator to act", lambda: acts_instead_of(first, idle), seconds=90, every=0.1)
    wait_until_gone(installation.cluster, first)
    assert actor_of_next_change(idle) == second
    assert who_acted_in_turn(since) == [first, second]
    assert list(operators(installation.cluster)) == [second]


def test_another_acts_within_20_seconds_after_the_leader_was_killed(
    installation: Installation, idle: Scratch, two: datetime
) -> None:
    first = leader(installation.cluster)
    found = operators(installation.cluster)
    assert actor_of_next_change(idle) == first
    host_processes.one_of_pod(found[first]["metadata"]["uid"], "workslice_operator").signal(signal.SIGKILL)
    # Without its pod the kubelet would start it again, and it would go on under its own name before the Lease expires.
    installation.cluster.kubectl("delete", "pod", first, "-n", SYSTEM, "--force", "--grace-period=0")
    # The pod that replaces it may be up so soon that it sees the Lease expire with the one that waited, and be the first.
    second = actor_of_next_change(idle)
    assert second in operators(installation.cluster).keys() - {first}
    assert who_acted_in_turn(two) == [first, second]


def test_a_leader_that_hangs_is_replaced_and_writes_nothing_when_it_wakes_up(
    installation: Installation, idle: Scratch, two: datetime
) -> None:
    first = leader(installation.cluster)
    found = operators(installation.cluster)
    (other,) = found.keys() - {first}
    assert actor_of_next_change(idle) == first
    frozen = host_processes.one_of_pod(found[first]["metadata"]["uid"], "workslice_operator")
    try:
        freeze_in_the_midst_of_its_work(idle, first, frozen)
        assert actor_of_next_change(idle) == other
    finally:
        frozen.signal(signal.SIGCONT)
    assert actor_of_next_change(idle) == other

    def started_anew() -> None:
        if host_processes.one_of_pod(found[first]["metadata"]["uid"], "workslice_operator").pid == frozen.pid:
            raise NotYet("the old process is there")

    wait_until("the one that lost the Lease to end", started_anew, seconds=30)
    assert actor_of_next_change(idle) == other
    assert who_acted_in_turn(two) == [first, other]


def test_a_leader_that_is_told_to_go_hands_over_at_once(
    installation: Installation, idle: Scratch, two: datetime
) -> None:
    first = leader(installation.cluster)
    assert actor_of_next_change(idle) == first
    installation.cluster.kubectl("delete", "pod", first, "-n", SYSTEM, "--wait=false")
    wait_until("the other to act", lambda: acts_instead_of(first, idle), seconds=10, every=0.1)
    wait_until_gone(installation.cluster, first)
    before, after = who_acted_in_turn(two)
    assert before == first
    assert after in operators(installation.cluster)


def acts_instead_of(before: str, idle: Scratch) -> str:
    """Change the pool's size and return who acted; raises NotYet while it is still `before`."""
    actor = actor_of_next_change(idle)
    if actor == before:
        raise NotYet(f"{before} still acts")
    return actor


def wait_until_gone(cluster: Cluster, pod: str) -> None:
    def gone() -> None:
        if cluster.find("pod", pod, SYSTEM):
            raise NotYet(f"{pod} is still there")

    wait_until(f"{pod} to go", gone, seconds=40, every=0.3)
