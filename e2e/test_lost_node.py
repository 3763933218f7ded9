"""The link of a node is cut: routers notice it by themselves, long before Kubernetes does, and the replica is replaced with the node."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from demo.installation import cluster_tool
from demo.load import Load
from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

from installed import SPARE_NODE as NODE
from installed import Installation
from router_accounts import in_rotation, rotations, router_addresses, states_at, wait_until_accounts_are_zero
from scratch import Scratch
from watched_stream import WatchedStream
from workslice_api.names import POOL_LABEL
from workslice_router import dead_peer

pytestmark = pytest.mark.soak  # minutes of waiting on purpose: `make soak`

MODEL = "lost"
WORKERS = 3
LONG_ANSWER = 8000
"""Tokens: nearly all that the tiny model holds."""
SLOW, FULL_SPEED = "300m", "2"
"""CPU of an engine: while an answer has to last until the link is cut, and from then on."""
STREAMS_ON_EACH, MOST_STREAMS = 2, 8
OUT_SECONDS = dead_peer.SILENT_SECONDS + 2
"""Within this a replica is out of rotation and its streams have ended: what the routers promise, and 2 s for a machine whose cores are
taken. Kubernetes takes about 40 s to call the node NotReady."""


@pytest.fixture(scope="module")
def pool(spare_node: str, module_scratch: Scratch) -> Scratch:
    """A pool with one replica on each node."""
    module_scratch.profile(slice_profile="1g.10gb")
    module_scratch.pool(model=MODEL, replicas=2, template=apart("pool"))
    return module_scratch


@pytest.fixture(autouse=True)
def settled(installation: Installation, pool: Scratch) -> Iterator[None]:
    """Before each test both replicas are in rotation, after it all accounts are zero."""
    pool.wait_for("Ready", "True", "PoolReady", seconds=300)
    wait_until("both to be in rotation", lambda: in_rotation_are(pool, set(by_node(pool).values())), seconds=20)
    assert NODE in by_node(pool)
    yield
    wait_until_accounts_are_zero(installation.cluster)


def apart(pool: str) -> dict[str, Any]:
    """A pool's template whose replicas keep apart while they can."""
    term = {"labelSelector": {"matchLabels": {POOL_LABEL: pool}}, "topologyKey": "kubernetes.io/hostname"}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
    return {"affinity": {"podAntiAffinity": wish}}


def by_node(pool: Scratch) -> dict[str, str]:
    """UID of the replica on each node."""
    return {pod["spec"]["nodeName"]: pod["metadata"]["uid"] for pod in pool.pods()}


def in_rotation_are(pool: Scratch, wanted: set[str]) -> None:
    if (found := in_rotation(pool.cluster, f"{pool.namespace}/pool")) != wanted:
        raise NotYet(f"in rotation: {sorted(found)}")


def node_is_ready(pool: Scratch) -> bool:
    return bool(condition(pool.cluster.get("node", NODE), "Ready")["status"] == "True")


def seconds_until_out(routers: dict[str, str], pool: str, replica: str, since: float) -> float:
    """When the last of the routers at these addresses sends nothing more to the replica."""

    def out() -> float:
        found = rotations(states_at(routers), pool)
        if any(replica in rotation for rotation in found):
            raise NotYet(f"in rotation: {found}")
        return time.monotonic() - since

    return wait_until("the replica to leave rotation", out, seconds=30, every=0.1)


def warnings(pool: Scratch) -> str:
    """Reasons and messages of the pool's warning Events, one in a line."""
    events = pool.cluster.objects("events", pool.namespace)
    return "\n".join(f"{event['reason']}: {event['message']}" for event in events if event["type"] == "Warning")


def questions_not_streamed(installation: Installation) -> Load:
    """Short questions that are always running; nobody has seen a part of any answer."""
    return Load(installation.client(), MODEL, in_flight=WORKERS, max_tokens=24, stream=False)


def streams_on_both(installation: Installation, replicas: set[str]) -> list[WatchedStream]:
    """At least two long streams on each replica, all of which have begun."""
    streams: list[WatchedStream] = []
    while any([stream.replica for stream in streams].count(one) < STREAMS_ON_EACH for one in replicas):
        assert len(streams) < MOST_STREAMS, f"on {[stream.replica for stream in streams]}, not on {replicas}"
        more = [WatchedStream(installation.url, MODEL, LONG_ANSWER) for _ in replicas]
        streams += [stream.wait_for_start() for stream in more]
    return streams


def test_a_node_whose_link_is_cut_costs_its_started_streams_alone_and_takes_requests_again_when_it_is_healed(
    installation: Installation, pool: Scratch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = by_node(pool)[NODE]
    (here,) = set(by_node(pool).values()) - {lost}
    with questions_not_streamed(installation) as questions:
        questions.wait_for_more(6)
        routers = router_addresses(installation.cluster)
        pool.limit_cpu(SLOW)
        streams = streams_on_both(installation, {here, lost})
        on_lost = [stream for stream in streams if stream.replica == lost]
        cluster_tool("node", "cut", NODE)
        cut = time.monotonic()
        assert all(stream.ran_at(cut) for stream in streams), "the answers are too short for this test: lower SLOW"
        pool.limit_cpu(FULL_SPEED)
        out = seconds_until_out(routers, f"{pool.namespace}/pool", lost, cut)
        assert [stream.ending() for stream in on_lost] == ["error"] * len(on_lost)
        ended = max(stream.ended_at for stream in on_lost) - cut
        assert out <= OUT_SECONDS, f"out of rotation {out:.1f} s after the cut"
        assert ended <= OUT_SECONDS, f"streams ended {ended:.1f} s after the cut"
        assert node_is_ready(pool), "Kubernetes was faster than the routers"
        seen = len(questions.answers)
        questions.wait_for_more(20)
        assert {answer.replica for answer in questions.answers[seen + WORKERS :]} == {here}
        cluster_tool("node", "heal", NODE)
        healed = time.monotonic()
        wait_until(
            "the replica to be back in rotation", lambda: in_rotation_are(pool, {here, lost}), seconds=60, every=0.3
        )
        back = time.monotonic() - healed
        others = [stream for stream in streams if stream.replica == here]
        assert [stream.ending() for stream in others] == ["done"] * len(others)
    assert questions.failures == []
    slowest = max(answer.total for answer in questions.answers)
    with capsys.disabled():
        print(
            f"out of rotation {out:.1f} s after the cut, its streams ended after {ended:.1f} s, slowest of "
            f"{len(questions.answers)} answers {slowest:.1f} s, back in rotation {back:.1f} s after the heal"
        )


def test_a_replica_is_replaced_when_its_lost_node_is_removed_and_the_pool_says_what_happened(
    installation: Installation, pool: Scratch, capsys: pytest.CaptureFixture[str]
) -> None:
    (lost,) = [pod["metadata"] for pod in pool.pods() if pod["spec"]["nodeName"] == NODE]
    with questions_not_streamed(installation) as questions:
        questions.wait_for_more(3)
        cluster_tool("node", "cut", NODE)
        cut = time.monotonic()
        said = pool.wait_for(
            "EnginesReady", "False", "NodeLost", saying=f"{lost['name']} is on node {NODE}", seconds=90
        )
        told = time.monotonic() - cut
        assert said.startswith("1 of 2 replicas ready")
        assert f"NodeLost: {said}" in warnings(pool)
        pool.cluster.kubectl("delete", "node", NODE)
        deleted = time.monotonic()

        def replaced() -> None:
            found = by_node(pool)
            if lost["uid"] in found.values() or len(pool.pods()) != 2:
                raise NotYet(f"{found}")

        wait_until("the replica to be replaced", replaced, seconds=150)
        gone = time.monotonic() - deleted
        pool.wait_for("Ready", "True", "PoolReady", seconds=120)
        ready = time.monotonic() - deleted
        uids = {pod["metadata"]["uid"] for pod in pool.pods()}
        wait_until("the new replica to be in rotation", lambda: in_rotation_are(pool, uids), seconds=20)
    assert questions.failures == []
    assert NODE not in by_node(pool)
    with capsys.disabled():
        print(
            f"told {told:.0f} s after the cut; after the node's deletion: replaced {gone:.0f} s, Ready again {ready:.0f} s"
        )
