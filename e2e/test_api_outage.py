"""The Kubernetes API goes away and comes back: routers serve on, the operator waits it out and acts again at once."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from demo.installation import NAMESPACE as SYSTEM
from demo.installation import cluster_tool
from demo.load import Load
from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

import host_processes
import manifests
from exposed_metrics import sample
from installed import Installation
from router_accounts import wait_until_accounts_are_zero
from scratch import Scratch
from workslice_api.names import OPERATOR_METRICS_PORT

pytestmark = pytest.mark.soak  # minutes of waiting on purpose: `make soak`

MODEL = "outage"
ACTS_AGAIN_SECONDS = 20
LEASE_SECONDS = 15
"""The operator acts for 10 s after it last renewed its Lease; another may take it after 15."""
OPERATOR = "app.kubernetes.io/component=operator"


@pytest.fixture(scope="module")
def idle(module_scratch: Scratch) -> Scratch:
    """A pool that never finds a slice: how many replicas its Deployment has is all that these tests need."""
    module_scratch.profile()
    module_scratch.pool()
    module_scratch.wait_for("SlicesGranted", "False", "NoFreeSlice")
    return module_scratch


@pytest.fixture(scope="module", autouse=True)
def answering(idle: Scratch) -> None:
    """A pool that answers all through the outages."""
    profile = f"{idle.namespace}-answering"
    idle.cluster.apply([manifests.profile(profile, idle.engine_image, slice_profile="1g.10gb")])
    idle.profiles.append(profile)
    idle.pool("answering", profile=profile, model=MODEL)
    idle.wait_for("Ready", "True", "PoolReady", pool="answering", seconds=240)


@pytest.fixture(autouse=True)
def settled(installation: Installation) -> Iterator[None]:
    """After each test all accounts are zero."""
    yield
    wait_until_accounts_are_zero(installation.cluster)


def operator_pod(installation: Installation) -> dict[str, Any]:
    """The operator's pod."""
    (pod,) = installation.cluster.objects("pods", SYSTEM, OPERATOR)
    return pod


def fresh_operator_pod(installation: Installation) -> dict[str, Any]:
    """A pod whose container has never ended: one that ended before is started again later and later by the kubelet."""
    old = operator_pod(installation)["metadata"]
    installation.cluster.kubectl("delete", "pod", old["name"], "-n", SYSTEM, "--timeout=50s")

    def ready() -> dict[str, Any]:
        found = installation.cluster.objects("pods", SYSTEM, OPERATOR)
        new = [pod for pod in found if pod["metadata"]["uid"] != old["uid"]]
        if len(found) != 1 or not new or condition(new[0], "Ready")["status"] != "True":
            raise NotYet(f"{[(pod['metadata']['name'], condition(pod, 'Ready')['status']) for pod in found]}")
        return new[0]

    return wait_until("a new operator to be ready", ready, seconds=60)


def process_of(pod: dict[str, Any]) -> host_processes.Process:
    """The operator's process: the kubelet tells of restarts some time after an outage, the host always knows."""
    return host_processes.one_of_pod(pod["metadata"]["uid"], "workslice_operator")


def leads(pod: dict[str, Any]) -> bool:
    """Whether the operator holds the Lease, as it says itself."""
    return sample(pod["status"]["podIP"], OPERATOR_METRICS_PORT, "workslice_operator_leader") == 1


def replicas(idle: Scratch) -> int:
    return int(idle.cluster.get("deployment", "pool-engine", idle.namespace)["spec"]["replicas"])


def change_the_size(idle: Scratch) -> int:
    """Ask for another size of the pool and return it."""
    wanted = replicas(idle) + 1
    idle.cluster.kubectl("scale", "wspool", "pool", "-n", idle.namespace, f"--replicas={wanted}")
    return wanted


def wait_until_the_operator_acts(idle: Scratch, wanted: int) -> None:
    """Wait until the pool's Deployment has that size."""
    began = time.monotonic()

    def acted() -> None:
        if (found := replicas(idle)) != wanted:
            raise NotYet(f"the Deployment has {found} replicas")

    wait_until("the operator to act again", acted, seconds=ACTS_AGAIN_SECONDS, every=0.3)
    print(f"acted after {time.monotonic() - began:.1f} s")


@contextmanager
def stopped(component: str) -> Iterator[None]:
    """A component of the control plane is dead within this context."""
    cluster_tool("stop", component)
    try:
        yield
    finally:
        cluster_tool("start", component)


@contextmanager
def unable_to_renew(installation: Installation) -> Iterator[None]:
    """The operator may do all it may do, except to write its Lease, within this context."""
    rules = installation.cluster.get("role", "workslice-operator", SYSTEM)["rules"]
    fewer = [rule for rule in rules if "leases" not in rule["resources"]]
    assert fewer != rules
    installation.cluster.patch("role", "workslice-operator", SYSTEM, {"rules": fewer})
    try:
        yield
    finally:
        installation.cluster.patch("role", "workslice-operator", SYSTEM, {"rules": rules})


def questions(installation: Installation) -> Load:
    return Load(installation.client(), MODEL, in_flight=2, most=2, max_tokens=32)


def answers_for(load: Load, seconds: float) -> None:
    """Return after that many seconds, once another answer has come."""
    began, seen = time.monotonic(), len(load.answers)

    def over() -> None:
        left = seconds - (time.monotonic() - began)
        if left > 0 or len(load.answers) == seen:
            raise NotYet(f"{left:.0f} s are left, {len(load.answers) - seen} answers; failures: {load.failures}")

    wait_until("answers during the outage", over, seconds=seconds + 30)


@pytest.mark.parametrize(
    ("component", "seconds"),
    [("kube-apiserver", 60), ("etcd", 15), ("kube-apiserver", 180)],
    ids=["the API server for a minute", "etcd", "the API server for three minutes"],
)
def test_requests_are_answered_during_an_outage_and_the_operator_acts_right_after_it(
    installation: Installation, idle: Scratch, component: str, seconds: float
) -> None:
    pod = operator_pod(installation)
    before = process_of(pod)
    with questions(installation) as load:
        with stopped(component):
            answers_for(load, seconds)
            assert not leads(pod), "its Lease has run out: another operator may act"
        wait_until_the_operator_acts(idle, change_the_size(idle))
        answers_for(load, 3)
    assert load.failures == []
    assert process_of(pod) == before, "it waited and did not start anew"
    assert leads(pod)


def test_an_operator_that_starts_during_an_outage_waits_for_the_api_and_then_acts(
    installation: Installation, idle: Scratch
) -> None:
    pod = fresh_operator_pod(installation)
    killed = process_of(pod)
    with questions(installation) as load:
        with stopped("kube-apiserver"):
            killed.signal(signal.SIGKILL)

            def another() -> host_processes.Process:
                if (found := process_of(pod)) == killed:
                    raise NotYet("the old process is there")
                return found

            started = wait_until("the kubelet to start the operator again", another, seconds=20, every=0.3)
            # Longer than its liveness probe would bear, and than kopf's own patience with an API.
            answers_for(load, 90)
            said = httpx.get(f"http://{pod['status']['podIP']}:{OPERATOR_METRICS_PORT}/readyz", trust_env=False)
            assert said.status_code == 503
            assert "the Kubernetes API or the CRDs are not there yet" in said.text
        wait_until_the_operator_acts(idle, change_the_size(idle))
    assert load.failures == []
    assert process_of(pod) == started, "it waited and did not crash"

    def told() -> None:
        (status,) = operator_pod(installation)["status"]["containerStatuses"]
        if status["restartCount"] != 1:
            raise NotYet(f"{status['restartCount']} restarts")

    wait_until("the kubelet to tell of the one restart", told, seconds=60)


def test_an_operator_that_cannot_renew_its_lease_does_nothing_until_it_can(
    installation: Installation, idle: Scratch
) -> None:
    pod = operator_pod(installation)
    before, size = process_of(pod), replicas(idle)
    with questions(installation) as load:
        with unable_to_renew(installation):

            def stopped_leading() -> None:
                if leads(pod):
                    raise NotYet("it leads")

            wait_until("the operator to stop leading", stopped_leading, seconds=LEASE_SECONDS, every=0.3)
            wanted = change_the_size(idle)
            answers_for(load, LEASE_SECONDS)
            assert replicas(idle) == size
        wait_until_the_operator_acts(idle, wanted)
    assert load.failures == []
    assert process_of(pod) == before, "it waited and did not start anew"
