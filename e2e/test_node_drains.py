"""`kubectl drain` of a node: its replicas move one at a time, running streams finish where they began, and no request is lost."""

import time

import pytest
from demo.load import Load

import manifests
from installed import Installation
from long_streams import LongStreams
from router_accounts import wait_until_accounts_are_zero
from scratch import Scratch

pytestmark = pytest.mark.soak  # minutes of waiting on purpose: `make soak`

MODEL = "drained"
TOKENS = 8000
CPU = "500m"
"""CPU limit under which an answer of that many tokens outlasts the beginning of the drain."""


def test_draining_a_node_moves_its_replicas_and_loses_no_request(
    installation: Installation, spare_node: str, scratch: Scratch
) -> None:
    scratch.profile(slice_profile="1g.10gb")
    scratch.pool(model=MODEL, replicas=2, template=manifests.preferring(spare_node), drain={"timeout": "300s"})
    scratch.wait_for("Ready", "True", "PoolReady", seconds=300)
    assert [pod["spec"]["nodeName"] for pod in scratch.pods()] == [spare_node] * 2
    scratch.limit_cpu(CPU)
    streams = LongStreams(installation.client(), MODEL, count=2, tokens=TOKENS)
    with Load(installation.client(), MODEL, in_flight=2, max_tokens=16) as load:
        load.wait_for_more(4)
        began = time.monotonic()
        assert streams.running() == 2
        scratch.cluster.kubectl("drain", spare_node, "--delete-emptydir-data", "--timeout=500s", seconds=520)
        print(f"drained in {time.monotonic() - began:.1f} s")
        scratch.wait_for("Ready", "True", "PoolReady", seconds=240)
        load.wait_for_more(4)
        answers = streams.answers(300)
    print(f"streams of {[round(answer.total, 1) for answer in answers]} s, {len(load.answers)} other answers")
    assert load.failures == []
    assert streams.complete(answers)
    assert spare_node not in {pod["spec"]["nodeName"] for pod in scratch.pods()}
    wait_until_accounts_are_zero(installation.cluster)
