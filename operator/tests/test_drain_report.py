from datetime import timedelta
from typing import Any

import pytest
from pool_facts import NOW, make_observed, make_pool, ready_pod

from workslice_api.names import Reason
from workslice_api.pool import ScalingMemory
from workslice_api.pool_replicas import DrainMark
from workslice_operator.drain import DrainPlan, Stage
from workslice_operator.drain_report import condition, events, next_look
from workslice_operator.observed import EngineLoad, Observed, ReplicaUse, RouterReport
from workslice_operator.scaling import Decision

MARK = DrainMark(name="a", uid="uid-a", since=NOW.isoformat())
LIVE = (ready_pod("a"),)
SAME = Decision(1, Reason.STEADY, "", ScalingMemory())


def observed(*marked: DrainMark, pods: Any = LIVE, desired: int = 1, **facts: Any) -> Observed:
    status = {"drainMarks": [one.to_wire() for one in marked], "desiredReplicas": desired}
    return make_observed(make_pool(status=status), pods=pods, **facts)


def draining(stage: Stage, *marks: DrainMark, **plan: Any) -> DrainPlan:
    listed = marks or (MARK,)
    return DrainPlan(2, marks=listed, stages={one.uid: stage for one in listed}, **plan)


def report(use: ReplicaUse, routers: int = 2) -> RouterReport:
    return RouterReport(NOW, routers, {"uid-a": use})


@pytest.mark.parametrize(
    ("stage", "facts", "reason", "words"),
    [
        (Stage.ROUTERS_UNKNOWN, {}, Reason.ROUTERS_UNKNOWN, "see that routers run"),
        (Stage.ROUTERS_UNKNOWN, {"routers": RouterReport(NOW, 0, {})}, Reason.ROUTERS_UNKNOWN, "see that routers run"),
        (
            Stage.ROUTERS_UNKNOWN,
            {"routers": report(ReplicaUse(0, 0, False, silent=1))},
            Reason.ROUTERS_UNKNOWN,
            "1 of 2 routers do not say",
        ),
        (
            Stage.ROUTERS,
            {"routers": report(ReplicaUse(3, 0, False))},
            Reason.WAITING_FOR_ROUTERS,
            "routers have 3 requests running there",
        ),
        (Stage.ROUTERS, {}, Reason.WAITING_FOR_ROUTERS, "send nothing new"),
        (Stage.ENGINE, {"engines": {"uid-a": EngineLoad(2, 1)}}, Reason.WAITING_FOR_ENGINE, "engine has 3 requests"),
        (Stage.ENGINE, {}, Reason.WAITING_FOR_ENGINE, "engine is asked"),
        (Stage.IDLE, {}, Reason.REMOVING, "has finished and goes"),
        (Stage.EXPIRED, {}, Reason.REMOVING, "its time is over"),
    ],
)
def test_each_stage_has_its_reason_and_says_what_it_waits_for(
    stage: Stage, facts: dict[str, Any], reason: Reason, words: str
) -> None:
    found = condition(observed(MARK, **facts), draining(stage))
    assert found is not None
    assert (found.status, found.reason) == (True, reason)
    assert words in found.message
    assert found.message.startswith("a: ")
    assert "120s" in found.message


def test_the_replica_with_the_longest_way_to_go_gives_the_reason() -> None:
    other = DrainMark(name="b", uid="uid-b", since=NOW.isoformat())
    plan = DrainPlan(3, marks=(MARK, other), stages={"uid-a": Stage.IDLE, "uid-b": Stage.ROUTERS})
    found = condition(observed(MARK, other), plan)
    assert found is not None
    assert found.reason is Reason.WAITING_FOR_ROUTERS


def test_many_replicas_are_counted_instead_of_listed() -> None:
    marks = tuple(DrainMark(name=f"r{n}", uid=f"u{n}", since=NOW.isoformat()) for n in range(9))
    found = condition(observed(*marks), draining(Stage.ROUTERS, *marks))
    assert found is not None
    assert "and 4 more" in found.message


def test_a_rollout_that_holds_the_size_is_told() -> None:
    found = condition(observed(), DrainPlan(2, held=True))
    assert found is not None
    assert (found.status, found.reason) == (False, Reason.HELD_BY_ROLLOUT)


def test_without_a_drain_there_is_nothing_to_tell() -> None:
    assert condition(observed(), DrainPlan(1)) is None
    assert list(events(observed(), SAME, DrainPlan(1))) == []


@pytest.mark.parametrize(
    ("before", "decision", "plan", "expected"),
    [
        (observed(), SAME, draining(Stage.ROUTERS), [("Normal", Reason.DRAIN_STARTED)]),
        (observed(MARK), SAME, draining(Stage.ROUTERS), []),
        (observed(MARK), SAME, draining(Stage.IDLE, leaving=frozenset({"uid-a"})), []),
        (
            observed(MARK),
            SAME,
            draining(Stage.EXPIRED, leaving=frozenset({"uid-a"})),
            [("Warning", Reason.DRAIN_TIMED_OUT)],
        ),
        (observed(MARK), SAME, draining(Stage.EXPIRED), []),
        (observed(MARK, pods=(ready_pod("a", deleting=True),)), SAME, DrainPlan(1), [("Normal", Reason.REPLICA_GONE)]),
        (observed(MARK, pods=()), SAME, DrainPlan(1), [("Normal", Reason.REPLICA_GONE)]),
        (
            observed(MARK),
            Decision(2, Reason.SCALED_UP, "", ScalingMemory()),
            DrainPlan(2),
            [("Normal", Reason.DRAIN_CALLED_BACK)],
        ),
        (observed(MARK), SAME, DrainPlan(1), [("Normal", Reason.DRAIN_WITHDRAWN)]),
        (observed(MARK), SAME, DrainPlan(2, held=True), [("Normal", Reason.DRAIN_WITHDRAWN)]),
    ],
    ids=[
        "marked",
        "still marked",
        "goes",
        "goes unfinished",
        "unfinished but held by another",
        "terminates",
        "has vanished",
        "wanted again",
        "another went",
        "rollout",
    ],
)
def test_each_turn_of_a_drain_is_told_once(
    before: Observed, decision: Decision, plan: DrainPlan, expected: list[tuple[str, Reason]]
) -> None:
    assert [(one.type, one.reason) for one in events(before, decision, plan)] == expected


def test_a_drain_is_looked_at_as_often_as_routers_are_asked() -> None:
    assert next_look(draining(Stage.ROUTERS)) == 2
    assert next_look(DrainPlan(1)) > timedelta(days=1).total_seconds()
