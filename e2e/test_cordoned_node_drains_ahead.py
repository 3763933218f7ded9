"""Replicas on a cordoned node move before anybody evicts them: another starts first, and a running stream ends where it began."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from demo.installation import cluster_tool, provide_images
from demo.question import ask
from demo.waiting import NotYet, wait_until

from installed import Installation
from scratch import Scratch

pytestmark = pytest.mark.soak  # minutes of waiting on purpose: `make soak`

NODE = "spare"
MODEL = "cordoned"
TOKENS = 8000
SLOW = '{"spec":{"containers":[{"name":"engine","resources":{"limits":{"cpu":"250m"}}}]}}'


@pytest.fixture
def spare_node(installation: Installation) -> Iterator[str]:
    """A second node with slices of its own; it goes with the test."""
    cluster_tool("node", "add", NODE)
    provide_images(installation.cluster)  # it has none yet
    yield NODE
    cluster_tool("node", "remove", NODE)


def prefers(node: str) -> dict[str, Any]:
    """A pool's template that goes to the node while it can."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    return {"affinity": {"nodeAffinity": wish}}


def test_a_replica_on_a_cordoned_node_is_replaced_before_it_drains(
    installation: Installation, spare_node: str, scratch: Scratch
) -> None:
    scratch.profile(slice_profile="1g.10gb")
    scratch.pool(model=MODEL, template=prefers(spare_node), drain={"timeout": "180s"})
    scratch.wait_for("Ready", "True", "PoolReady", seconds=300)
    (old,) = scratch.pods()
    assert old["spec"]["nodeName"] == spare_node
    cluster, name = scratch.cluster, old["metadata"]["name"]
    cluster.kubectl("patch", "pod", name, "-n", scratch.namespace, "--subresource=resize", "-p", SLOW)
    options = {"extra_body": {"ignore_eos": True}}
    with ThreadPoolExecutor(1) as workers:
        stream = workers.submit(ask, installation.client(), MODEL, "Count", stream=True, max_tokens=TOKENS, **options)
        cluster.kubectl("cordon", spare_node)

        def replaced() -> None:
            live = {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in scratch.pods()}
            scaled = cluster.get("wspool", "pool", scratch.namespace)["status"]
            assert scaled["readyReplicas"] >= 1, "the pool was never without a replica"
            assert scaled["desiredReplicas"] == 1
            if len(live) != 1 or spare_node in live.values():
                raise NotYet(f"{live}")

        wait_until("the replica to be replaced on another node", replaced, seconds=300)
        answer = stream.result(timeout=10)
    assert (answer.completion_tokens, answer.finish_reason) == (TOKENS, "length")
    assert answer.replica == old["metadata"]["uid"]
    assert ask(installation.client(), MODEL, "Moved?", stream=False, max_tokens=2).replica != answer.replica
