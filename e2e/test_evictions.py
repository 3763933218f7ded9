"""Evictions take one replica at a time, let its running streams finish and lose no request; one that is not ready blocks nobody."""

import json
import time

import pytest
from demo.load import Load
from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

from installed import Installation
from long_streams import LongStreams
from router_accounts import wait_until_accounts_are_zero
from scratch import Scratch
from workslice_cluster.cluster_error import ClusterError

pytestmark = pytest.mark.soak  # minutes of waiting on purpose: `make soak`

MODEL = "evicted"
TOKENS = 8000
CPU = "500m"
"""CPU limit under which an answer of that many tokens outlasts preStop by far."""
PRE_STOP_SECONDS = 5
GONE_SECONDS = 30
"""In which an engine that starts ends, whatever time to drain its pool gives."""


def evict(scratch: Scratch, pod: str) -> bool:
    """Ask for a pod's eviction, as `kubectl drain` does; False when the budget does not allow it now."""
    metadata = {"name": pod, "namespace": scratch.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    path = f"/api/v1/namespaces/{scratch.namespace}/pods/{pod}/eviction"
    try:
        scratch.cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    except ClusterError as error:
        if "disruption budget" in str(error):
            return False
        raise
    return True


def replicas(scratch: Scratch) -> dict[str, bool]:
    """The pods that are not on their way out and run, by name: whether each is ready."""
    running = [pod for pod in scratch.pods() if pod["status"]["phase"] == "Running"]
    return {pod["metadata"]["name"]: condition(pod, "Ready")["status"] == "True" for pod in running}


def test_a_replica_that_is_not_ready_can_be_evicted_even_when_none_is(scratch: Scratch) -> None:
    scratch.profile(slice_profile="1g.10gb")
    scratch.pool(model=MODEL, replicas=2, drain={"timeout": "300s"})

    def both_start() -> dict[str, bool]:
        if len(found := replicas(scratch)) != 2:
            raise NotYet(f"{found}")
        return found

    found = wait_until("both replicas to start", both_start, seconds=60, every=0.3)
    assert not any(found.values()), "the engines started too fast for this test"
    name = next(iter(found))
    assert evict(scratch, name)

    def gone() -> None:
        if scratch.cluster.find("pod", name, scratch.namespace) is not None:
            raise NotYet(f"{replicas(scratch)}")

    wait_until("its slice to be free", gone, seconds=GONE_SECONDS, every=0.3)


def test_evictions_go_one_at_a_time_and_lose_no_request(installation: Installation, scratch: Scratch) -> None:
    scratch.profile(slice_profile="1g.10gb")
    scratch.pool(model=MODEL, replicas=2, drain={"timeout": "300s"})
    scratch.wait_for("Ready", "True", "PoolReady", seconds=240)
    scratch.limit_cpu(CPU)
    first, second = scratch.pods()
    names = [pod["metadata"]["name"] for pod in (first, second)]
    streams = LongStreams(installation.client(), MODEL, count=2, tokens=TOKENS)
    began = time.monotonic()
    with Load(installation.client(), MODEL, in_flight=2, max_tokens=16) as load:
        load.wait_for_more(4)
        evicted = time.monotonic()
        assert evict(scratch, names[0])
        assert not evict(scratch, names[1]), "one at a time"

        def granted() -> list[str]:
            if not evict(scratch, names[1]):
                raise NotYet(f"{replicas(scratch)}")
            return [name for name, ready in replicas(scratch).items() if ready and name not in names]

        took_its_place = wait_until("the second to be evicted", granted, seconds=400)
        assert len(took_its_place) == 1, "only when another is ready in the first one's place"
        print(f"the second went {time.monotonic() - evicted:.1f} s after the first")
        load.wait_for_more(8)
        answers = streams.answers(300)
        print(f"streams of {[round(answer.total, 1) for answer in answers]} s")
    assert load.failures == []
    assert streams.complete(answers)
    assert {answer.replica for answer in answers} == {pod["metadata"]["uid"] for pod in (first, second)}
    (whole,) = [answer for answer in answers if answer.replica == first["metadata"]["uid"]]
    assert began + whole.total > evicted + PRE_STOP_SECONDS, "the answer was too short for this test: lower CPU"
    wait_until_accounts_are_zero(installation.cluster)
