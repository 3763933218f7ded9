"""A pool of simulated engines: another image in the profile is all it takes, and the pool behaves like one of real engines."""

import pytest
from demo.installation import cluster_tool
from demo.question import ask

import manifests
from installed import Installation
from long_streams import LongStreams
from router_accounts import wait_until_accounts_are_zero, wait_until_running
from scratch import Scratch
from workslice_cluster import images

MODEL = "simulated"
REPLICAS = 2
TOKENS = 4000
"""A stream of about 10 seconds: the slice that is simulated needs 2.5 ms for a step of the tiny model."""


@pytest.fixture(scope="module")
def pool(module_scratch: Scratch) -> Scratch:
    """Two replicas with a quarter of a gibibyte of memory each."""
    archive, reference = images.ensure("engine-sim")
    cluster_tool("load", str(archive))
    module_scratch.profile(
        engine=manifests.engine(reference), slice_profile="1g.10gb", memory={"host": "256Mi", "kvCache": "128Mi"}
    )
    module_scratch.pool(model=MODEL, replicas=REPLICAS, drain={"timeout": "60s"})
    module_scratch.wait_for("Ready", "True", "PoolReady", seconds=90)
    return module_scratch


def test_every_replica_answers(installation: Installation, pool: Scratch) -> None:
    options = {"max_tokens": 8, "extra_body": {"ignore_eos": True}}
    answers = [ask(installation.client(), MODEL, f"{n}?", stream=bool(n % 2), **options) for n in range(8)]
    assert {answer.finish_reason for answer in answers} == {"length"}
    assert {answer.replica for answer in answers} == {pod["metadata"]["uid"] for pod in pool.pods()}


def test_a_scale_down_lets_the_streams_of_the_replica_that_goes_finish(
    installation: Installation, pool: Scratch
) -> None:
    streams = LongStreams(installation.client(), MODEL, count=REPLICAS, tokens=TOKENS)
    wait_until_running(installation.cluster, f"{pool.namespace}/pool", REPLICAS)
    pool.cluster.kubectl("scale", "wspool", "pool", "-n", pool.namespace, "--replicas=1")
    pool.wait_for("Draining", "True", "WaitingForRouters", seconds=30)
    assert [answer.finish_reason for answer in streams.answers(60)] == ["length"] * REPLICAS
    pool.wait_for("Draining", "False", "NotDraining", seconds=60)
    assert len(pool.pods()) == 1
    wait_until_accounts_are_zero(installation.cluster)
