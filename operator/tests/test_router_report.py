import pytest
from pool_facts import NOW

from workslice_api.state import PoolState, ReplicaState, RouterState
from workslice_operator.demand import Answer, RouterEndpoint
from workslice_operator.observed import ReplicaUse
from workslice_operator.router_report import router_report

POOL = "shop/chat"
HERE = RouterEndpoint("10.0.0.1", 9090, ready=True, terminating=False)
LEAVING = RouterEndpoint("10.0.0.2", 9090, ready=False, terminating=True)


def replica(in_flight: int = 0, draining: bool = True) -> ReplicaState:
    return ReplicaState(uid="a", address="", in_flight=in_flight, outstanding_tokens=in_flight * 10, draining=draining)


def answer(*replicas: ReplicaState, endpoint: RouterEndpoint = HERE, synced: bool = True) -> Answer:
    return Answer(endpoint, RouterState(synced=synced, pools={POOL: PoolState(replicas=replicas)}))


def use(*answers: Answer) -> ReplicaUse | None:
    return router_report(answers, POOL, NOW).replicas.get("a")


def test_all_routers_that_have_nothing_there_and_send_nothing_new_acknowledge() -> None:
    assert use(answer(replica()), answer(replica(), endpoint=LEAVING)) == ReplicaUse(0, 0, acknowledged=True)


def test_requests_are_added_up() -> None:
    assert use(answer(replica(2)), answer(replica(3))) == ReplicaUse(5, 50, acknowledged=False)


def test_a_router_that_still_may_send_there_does_not_acknowledge() -> None:
    found = use(answer(replica()), answer(replica(draining=False)))
    assert found == ReplicaUse(0, 0, acknowledged=False)


def test_a_terminating_routers_requests_count() -> None:
    found = use(answer(replica()), answer(replica(1), endpoint=LEAVING))
    assert found == ReplicaUse(1, 10, acknowledged=False)


@pytest.mark.parametrize(
    "silent",
    [
        Answer(HERE, None),
        Answer(HERE, None, refused=True),
        Answer(LEAVING, None),
        Answer(HERE, RouterState(synced=True)),
        answer(replica(), synced=False),
        answer(),
    ],
    ids=[
        "no answer",
        "ready but nothing listens",
        "terminating without an answer",
        "pool unknown",
        "not synced",
        "replica unknown",
    ],
)
def test_what_one_router_does_not_tell_is_unknown(silent: Answer) -> None:
    assert use(answer(replica()), silent) == ReplicaUse(0, 0, acknowledged=False, silent=1)


def test_a_terminating_router_that_has_ended_needs_not_be_asked() -> None:
    assert use(answer(replica()), Answer(LEAVING, None, refused=True)) == ReplicaUse(0, 0, acknowledged=True)


def test_without_routers_nothing_is_acknowledged() -> None:
    report = router_report([], POOL, NOW)
    assert (report.routers, dict(report.replicas)) == (0, {})
