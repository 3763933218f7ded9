"""Replicas on a cordoned node move before anybody evicts them: another starts first, and a running stream ends where it began."""

import pytest
from demo.question import ask
from demo.waiting import NotYet, wait_until

import manifests
from installed import Installation
from long_streams import LongStreams
from scratch import Scratch

pytestmark = pytest.mark.soak  # minutes of waiting on purpose: `make soak`

MODEL = "cordoned"
TOKENS = 8000
CPU = "250m"
"""CPU limit under which such an answer outlasts the start of another replica."""


def test_a_replica_on_a_cordoned_node_is_replaced_before_it_drains(
    installation: Installation, spare_node: str, scratch: Scratch
) -> None:
    scratch.profile(slice_profile="1g.10gb")
    scratch.pool(model=MODEL, template=manifests.preferring(spare_node), drain={"timeout": "300s"})
    scratch.wait_for("Ready", "True", "PoolReady", seconds=300)
    (old,) = scratch.pods()
    assert old["spec"]["nodeName"] == spare_node
    cluster = scratch.cluster
    scratch.limit_cpu(CPU)
    stream = LongStreams(installation.client(), MODEL, count=1, tokens=TOKENS)
    cluster.kubectl("cordon", spare_node)

    def replaced() -> None:
        live = {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in scratch.pods()}
        scaled = cluster.get("wspool", "pool", scratch.namespace)["status"]
        assert scaled["readyReplicas"] >= 1, "the pool was never without a replica"
        assert scaled["desiredReplicas"] == 1
        if len(live) != 1 or spare_node in live.values():
            raise NotYet(f"{live}")

    wait_until("the replica to be replaced on another node", replaced, seconds=500)
    (answer,) = stream.answers(10)
    assert stream.complete([answer])
    assert answer.replica == old["metadata"]["uid"]
    assert ask(installation.client(), MODEL, "Moved?", stream=False, max_tokens=2).replica != answer.replica
