from typing import Any

import pytest
from pool_facts import NOW

from workslice_api.pool import LowerDemand, Scaling, ScalingMemory, WorkspacePoolStatus
from workslice_api.state import PoolState, RouterState
from workslice_operator.demand import Answer, RouterEndpoint, could_change, queue_signal, router_endpoints
from workslice_operator.observed import QueueSignal

POOL = "shop/chat"


def router(ready: bool = True, terminating: bool = False) -> RouterEndpoint:
    return RouterEndpoint("10.0.0.1", 9090, ready, terminating)


def state(queued: int = 0, running: int = 0, synced: bool = True, pool: str = POOL) -> RouterState:
    return RouterState(synced=synced, pools={pool: PoolState(queued=queued, running=running)})


def answering(queued: int, running: int, endpoint: RouterEndpoint | None = None) -> Answer:
    return Answer(endpoint or router(), state(queued, running))


def test_demand_is_the_sum_over_routers() -> None:
    assert queue_signal([answering(1, 2), answering(3, 4)], POOL) == QueueSignal(queued=4, running=6, routers=2)


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [answering(1, 1), Answer(router(), None)],
        [answering(1, 1), Answer(router(ready=False), None)],
        [answering(1, 1), Answer(router(), None, refused=True)],
        [answering(1, 1), Answer(router(), state(synced=False))],
        [answering(1, 1), Answer(router(), state(pool="shop/other"))],
        [Answer(router(terminating=True), None)],
    ],
    ids=[
        "no routers",
        "a router is silent",
        "an unready router is silent",
        "a ready router refuses",
        "a router is not synced",
        "a router has not seen the pool",
        "only a router that went",
    ],
)
def test_whatever_is_missing_makes_demand_unknown(answers: list[Answer]) -> None:
    assert queue_signal(answers, POOL) is None


def test_a_terminating_router_counts_while_it_answers() -> None:
    answers = [answering(0, 1), answering(0, 5, router(ready=False, terminating=True))]
    assert queue_signal(answers, POOL) == QueueSignal(queued=0, running=6, routers=2)


@pytest.mark.parametrize(
    "gone",
    [
        Answer(router(ready=False, terminating=True), None),
        Answer(router(ready=False), None, refused=True),
        Answer(router(terminating=True), state(pool="shop/other")),
    ],
    ids=["terminating and silent", "not ready and nothing listens", "terminating before it saw the pool"],
)
def test_a_router_that_can_hold_nothing_does_not_hide_the_others(gone: Answer) -> None:
    signal = queue_signal([answering(1, 1), gone], POOL)
    assert signal is not None
    assert signal.depth == 2


def slice_of(*endpoints: dict[str, Any], port: str = "admin") -> dict[str, Any]:
    return {"ports": [{"name": port, "port": 9090}], "endpoints": list(endpoints)}


def test_routers_come_from_endpoint_slices_in_any_state() -> None:
    found = router_endpoints(
        [
            slice_of(
                {"addresses": ["10.0.0.2"], "conditions": {"ready": True, "serving": True}},
                {"addresses": ["10.0.0.1"], "conditions": {"ready": True, "serving": False}},
            ),
            slice_of({"addresses": ["10.0.0.3"], "conditions": {"ready": False, "serving": True, "terminating": True}}),
            slice_of({"addresses": ["10.0.0.9"]}, port="http"),
            {"ports": None, "endpoints": None},
        ]
    )
    assert found == (
        RouterEndpoint("10.0.0.1", 9090, ready=False, terminating=False),
        RouterEndpoint("10.0.0.2", 9090, ready=True, terminating=False),
        RouterEndpoint("10.0.0.3", 9090, ready=True, terminating=True),
    )


def test_an_ipv6_router_has_its_address_in_brackets() -> None:
    assert RouterEndpoint("fd00::1", 9090, True, False).url == "http://[fd00::1]:9090/state"


SCALING = Scaling(mode="QueueDepth", min_replicas=1, max_replicas=3, target_per_replica=4)


def concerns(depth: int | None, shown: int | None = 1, desired: int = 2, memory: ScalingMemory | None = None) -> bool:
    status = WorkspacePoolStatus(
        desired_replicas=desired, queue_depth=shown, scaling=memory or ScalingMemory(desired=desired)
    )
    return could_change(SCALING, status, None if depth is None else QueueSignal(queued=depth, running=0), NOW)


@pytest.mark.parametrize(("depth", "expected"), [(0, True), (4, True), (5, False), (8, False), (9, True), (1000, True)])
def test_demand_concerns_a_pool_when_it_asks_for_another_size(depth: int, expected: bool) -> None:
    assert concerns(depth) is expected


def test_demand_beyond_the_maximum_does_not_concern_a_pool_that_is_there() -> None:
    assert not concerns(1000, desired=3)


def test_a_signal_that_is_lost_or_found_concerns_the_pool() -> None:
    assert concerns(None)
    assert concerns(8, shown=None)
    assert not concerns(None, shown=None)


@pytest.mark.parametrize(("depth", "expected"), [(0, False), (4, False), (5, True), (9, True)])
def test_during_a_pending_scale_down_only_another_size_concerns(depth: int, expected: bool) -> None:
    memory = ScalingMemory(desired=2, lower=[LowerDemand(since="2026-01-01T00:00:00Z", replicas=1)])
    assert concerns(depth, memory=memory) is expected


@pytest.mark.parametrize("signal", [QueueSignal(0, 0), None], ids=["nobody asks", "unknown"])
def test_hours_that_begin_concern_a_pool_whatever_demand_is(signal: QueueSignal | None) -> None:
    hours = {"start": "00:00", "end": "00:00", "minReplicas": 2}
    scaling = Scaling.model_validate({"mode": "QueueDepth", "maxReplicas": 3, "schedule": [hours]})
    depth = 0 if signal else None
    for desired, expected in ((1, True), (2, False)):
        memory = ScalingMemory(desired=desired)
        status = WorkspacePoolStatus(desired_replicas=desired, queue_depth=depth, scaling=memory)
        assert could_change(scaling, status, signal, NOW) is expected


def test_demand_never_concerns_a_fixed_pool() -> None:
    assert not could_change(Scaling(), WorkspacePoolStatus(), QueueSignal(queued=99, running=0), NOW)
