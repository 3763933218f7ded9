from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pool_facts import NOW, make_deployment, make_observed, make_pod, make_pool, ready_pod, unplaced_pod

from workslice_operator.drain import FINISHED_COST, MARKED_COST, DrainPlan, Stage, engines_to_ask, plan_drain
from workslice_operator.observed import EngineLoad, Observed, ReplicaUse, RouterReport

IDLE = ReplicaUse(in_flight=0, outstanding_tokens=0, acknowledged=True)
BUSY = ReplicaUse(in_flight=2, outstanding_tokens=900, acknowledged=False)
NOT_ASKED_YET = ReplicaUse(in_flight=0, outstanding_tokens=0, acknowledged=False)
SILENT = ReplicaUse(in_flight=0, outstanding_tokens=0, acknowledged=False, silent=1)
EMPTY = EngineLoad(0, 0)
HASH = make_deployment().template_hash
MARKED = {"deletion_cost": MARKED_COST, "address": "10.1.0.1"}


def pool(*marked: str, since: float = 10, **spec: Any) -> Any:
    at = (NOW - timedelta(seconds=since)).isoformat()
    marks = [{"name": name, "uid": f"uid-{name}", "since": at} for name in marked]
    return make_pool(status={"drainMarks": marks}, drain={"timeout": "60s"}, **spec)


def report(asked: float = 0, **uses: ReplicaUse) -> RouterReport:
    return RouterReport(NOW - timedelta(seconds=asked), 1, {f"uid-{name}": use for name, use in uses.items()})


def two(marked_pool: Any, routers: RouterReport | None, engines: Mapping[str, EngineLoad] | None = None) -> Observed:
    return make_observed(
        marked_pool,
        deployment=make_deployment(2),
        pods=(ready_pod("a", **MARKED), ready_pod("b")),
        routers=routers,
        engines=engines or {},
    )


def drained(observed: Observed, desired: int = 1) -> DrainPlan:
    return plan_drain(observed, desired, HASH, NOW)


def test_a_replica_that_must_go_is_marked_and_nothing_shrinks_yet() -> None:
    pods = (ready_pod("a"), ready_pod("b"))
    observed = make_observed(
        pool(), deployment=make_deployment(2), pods=pods, routers=report(a=BUSY, b=IDLE), engines={"uid-b": EMPTY}
    )
    plan = drained(observed)
    assert plan.replicas == 2
    assert [(mark.name, mark.uid, mark.since) for mark in plan.marks] == [("b", "uid-b", NOW.isoformat())]
    assert [(one.pod, one.cost) for one in plan.costs] == [("b", MARKED_COST)]


def test_a_replica_goes_when_routers_and_engine_have_finished() -> None:
    plan = drained(two(pool("a"), report(a=IDLE), {"uid-a": EMPTY}))
    assert (plan.replicas, plan.leaving) == (1, {"uid-a"})
    assert [mark.uid for mark in plan.marks] == ["uid-a"], "it stays marked until it is gone"


@pytest.mark.parametrize(
    ("routers", "engines", "stage"),
    [
        (None, {"uid-a": EMPTY}, Stage.ROUTERS_UNKNOWN),
        (report(), {"uid-a": EMPTY}, Stage.ROUTERS_UNKNOWN),
        (report(a=SILENT), {"uid-a": EMPTY}, Stage.ROUTERS_UNKNOWN),
        (report(a=BUSY), {"uid-a": EMPTY}, Stage.ROUTERS),
        (report(a=NOT_ASKED_YET), {"uid-a": EMPTY}, Stage.ROUTERS),
        (report(asked=10, a=IDLE), {"uid-a": EMPTY}, Stage.ROUTERS),
        (report(a=IDLE), {}, Stage.ENGINE),
        (report(a=IDLE), {"uid-a": EngineLoad(0, 1)}, Stage.ENGINE),
        (report(a=IDLE), {"uid-a": EngineLoad(1, 0)}, Stage.ENGINE),
    ],
    ids=[
        "no report",
        "replica in no report",
        "a router silent",
        "requests running",
        "mark not seen by a router",
        "said before the mark",
        "engine silent",
        "engine has one waiting",
        "engine has one running",
    ],
)
def test_whatever_is_not_known_to_be_finished_stays(
    routers: RouterReport | None, engines: Mapping[str, EngineLoad], stage: Stage
) -> None:
    plan = drained(two(pool("a"), routers, engines))
    assert plan.replicas == 2
    assert plan.stages == {"uid-a": stage}


def test_after_the_timeout_a_replica_goes_with_what_it_has() -> None:
    observed = two(pool("a", since=60), None)
    assert drained(observed).replicas == 1
    assert drained(two(pool("a", since=59), None)).replicas == 2


def test_a_mark_that_an_operator_with_a_clock_ahead_has_left_counts_from_now() -> None:
    (mark,) = drained(two(pool("a", since=-60), None)).marks
    assert mark.since == NOW.isoformat()


def test_load_that_returns_calls_a_drained_replica_back() -> None:
    plan = drained(two(pool("a"), report(a=IDLE), {"uid-a": EMPTY}), desired=2)
    assert (plan.replicas, plan.marks) == (2, ())
    assert [(one.pod, one.cost) for one in plan.costs] == [("a", None)]


def test_a_mark_is_withdrawn_when_another_replica_went_in_its_place() -> None:
    observed = make_observed(pool("a"), deployment=make_deployment(1), pods=(ready_pod("a", **MARKED),))
    plan = drained(observed)
    assert (plan.replicas, plan.marks) == (1, ())
    assert [(one.pod, one.cost) for one in plan.costs] == [("a", None)]


def test_a_mark_stays_while_its_removal_is_on_the_way() -> None:
    observed = replace(two(pool("a"), report(a=IDLE)), deployment=make_deployment(1))
    plan = drained(observed)
    assert (plan.replicas, [mark.uid for mark in plan.marks], plan.leaving) == (1, ["uid-a"], frozenset())


def test_a_removal_that_is_on_the_way_marks_nobody_anew() -> None:
    observed = replace(two(pool(), report(a=IDLE)), deployment=make_deployment(1))
    assert drained(observed).marks == ()


def test_nothing_goes_before_the_deployment_controller_has_seen_the_last_change() -> None:
    observed = two(pool("a"), report(a=IDLE), {"uid-a": EMPTY})
    assert drained(replace(observed, deployment=make_deployment(2, settled=False))).replicas == 2


@pytest.mark.parametrize(
    "rollout", [{"outdated_replicas": 1}, {"template_hash": "other"}], ids=["under way", "about to begin"]
)
def test_a_rollout_holds_the_size_and_withdraws_marks(rollout: dict[str, Any]) -> None:
    observed = two(pool("a"), report(a=IDLE), {"uid-a": EMPTY})
    plan = drained(replace(observed, deployment=make_deployment(2, **rollout)))
    assert (plan.replicas, plan.marks, plan.held) == (2, (), True)
    assert [(one.pod, one.cost) for one in plan.costs] == [("a", None)]


def test_a_rollout_lets_a_pool_grow() -> None:
    observed = replace(two(pool(), None), deployment=make_deployment(2, outdated_replicas=1))
    assert drained(observed, desired=3).replicas == 3


def test_a_rollout_that_has_failed_holds_nothing() -> None:
    observed = replace(two(pool(), None), deployment=make_deployment(2, outdated_replicas=1, stalled=True))
    assert (drained(observed).replicas, drained(observed).held) == (1, False)


def test_a_new_template_after_a_failed_rollout_is_a_new_rollout() -> None:
    failed = make_deployment(2, outdated_replicas=1, stalled=True, template_hash="former")
    plan = drained(replace(two(pool(), None), deployment=failed))
    assert (plan.replicas, plan.held) == (2, True)


def test_a_pool_that_goes_to_zero_drains_even_during_a_rollout() -> None:
    observed = replace(
        two(pool("a", "b"), report(a=IDLE, b=BUSY), {"uid-a": EMPTY}),
        deployment=make_deployment(2, outdated_replicas=1),
    )
    plan = drained(observed, desired=0)
    assert [mark.name for mark in plan.marks] == ["a", "b"]


@pytest.mark.parametrize(
    "pod",
    [unplaced_pod("c", "0/1 nodes are available"), make_pod("c"), make_pod("c", phase="Pending")],
    ids=["without a place", "starting", "pulling its image"],
)
def test_a_replica_that_has_not_come_up_goes_at_once_and_first(pod: Any) -> None:
    observed = make_observed(
        pool("a"), deployment=make_deployment(3), pods=(ready_pod("a", **MARKED), ready_pod("b"), pod)
    )
    plan = drained(observed, desired=2)
    assert (plan.replicas, plan.marks, plan.leaving) == (2, (), {"uid-c"})


def test_replicas_that_have_no_pod_go_at_once() -> None:
    observed = make_observed(pool(), deployment=make_deployment(4), pods=(ready_pod("a"), ready_pod("b")))
    plan = drained(observed, desired=2)
    assert (plan.replicas, plan.marks) == (2, ())


def test_a_replica_that_hangs_is_chosen_first_but_may_hold_requests_and_drains() -> None:
    observed = make_observed(
        pool(),
        deployment=make_deployment(2),
        pods=(ready_pod("a"), make_pod("b", started=True)),
        routers=report(b=BUSY),
    )
    plan = drained(observed)
    assert (plan.replicas, [mark.name for mark in plan.marks]) == (2, ["b"])


def test_of_several_the_finished_one_goes_first_once_its_cost_is_the_lowest() -> None:
    pods = (ready_pod("a", **MARKED), ready_pod("b", **MARKED), ready_pod("c"))
    observed = make_observed(
        pool("a", "b"),
        deployment=make_deployment(3),
        pods=pods,
        routers=report(a=BUSY, b=IDLE),
        engines={"uid-b": EMPTY},
    )
    first = drained(observed)
    assert (first.replicas, first.leaving) == (3, frozenset())
    assert [(one.pod, one.cost) for one in first.costs] == [("b", FINISHED_COST)]
    cheaper = (pods[0], ready_pod("b", deletion_cost=FINISHED_COST), pods[2])
    second = drained(replace(observed, pods=cheaper))
    assert (second.replicas, second.leaving) == (2, {"uid-b"})


def test_all_go_together_when_all_have_finished() -> None:
    observed = two(pool("a", "b"), report(a=IDLE, b=IDLE), {"uid-a": EMPTY, "uid-b": EMPTY})
    assert drained(observed, desired=0).replicas == 0


def test_a_cost_that_somebody_else_set_is_no_business_of_ours() -> None:
    observed = make_observed(pool(), deployment=make_deployment(1), pods=(ready_pod("a", deletion_cost=7),))
    assert drained(observed).costs == ()


def test_an_engine_is_asked_only_when_the_routers_have_finished_with_it() -> None:
    assert engines_to_ask(two(pool("a"), report(a=BUSY)), NOW) == ()
    assert [pod.name for pod in engines_to_ask(two(pool("a"), report(a=IDLE)), NOW)] == ["a"]
    assert engines_to_ask(two(pool("a", since=60), report(a=IDLE)), NOW) == ()


def test_a_pool_without_a_deployment_gets_what_it_wants() -> None:
    assert drained(make_observed(pool()), desired=3) == DrainPlan(3)
