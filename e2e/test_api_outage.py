"""The Kubernetes API goes away and comes back: routers serve on, the operator waits it out and acts again at once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from demo.installation import NAMESPACE as SYSTEM
from demo.installation import cluster_tool
from demo.load import Load
from demo.waiting import NotYet, wait_until

import host_processes
from installed import MODEL, Installation
from router_accounts import wait_until_accounts_are_zero
from scratch import Scratch

pytestmark = pytest.mark.soak  # minutes of waiting on purpose: `make soak`

ACTS_AGAIN_SECONDS = 20
OPERATOR = "app.kubernetes.io/component=operator"


@pytest.fixture(scope="module")
def idle(module_scratch: Scratch) -> Scratch:
    """A pool that never finds a slice: how many replicas its Deployment has is all that these tests need."""
    module_scratch.profile()
    module_scratch.pool()
    module_scratch.wait_for("SlicesGranted", "False", "NoFreeSlice")
    return module_scratch


@pytest.fixture(autouse=True)
def settled(installation: Installation) -> Iterator[None]:
    """After each test all accounts are zero."""
    yield
    wait_until_accounts_are_zero(installation.cluster)


def operator_pod(installation: Installation) -> str:
    """UID of the operator's pod."""
    (pod,) = installation.cluster.objects("pods", SYSTEM, OPERATOR)
    return str(pod["metadata"]["uid"])


def operator_process(uid: str) -> host_processes.Process:
    """The operator's process: the kubelet tells of restarts some time after an outage, the host always knows."""
    return host_processes.one_of_pod(uid, "workslice_operator")


def replicas(idle: Scratch) -> int:
    return int(idle.cluster.get("deployment", "pool-engine", idle.namespace)["spec"]["replicas"])


def wait_until_the_operator_acts(idle: Scratch) -> None:
    """Change the pool's size and wait until its Deployment has it."""
    wanted = replicas(idle) + 1
    began = time.monotonic()
    idle.cluster.kubectl("scale", "wspool", "pool", "-n", idle.namespace, f"--replicas={wanted}")

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
    [("kube-apiserver", 60), ("etcd", 15)],
    ids=["the API server for a minute", "etcd"],
)
def test_requests_are_answered_during_an_outage_and_the_operator_acts_right_after_it(
    pools: Installation, idle: Scratch, component: str, seconds: float
) -> None:
    uid = operator_pod(pools)
    before = operator_process(uid)
    with Load(pools.client(), MODEL, in_flight=2, most=2, max_tokens=32) as load:
        with stopped(component):
            answers_for(load, seconds)
        wait_until_the_operator_acts(idle)
        answers_for(load, 3)
    assert load.failures == []
    assert operator_process(uid) == before, "it waited and did not start anew"
