import pytest

from workslice_api.conditions import condition
from workslice_api.pool import LowerDemand, ScalingMemory, SliceStatus, WorkspacePoolStatus
from workslice_api.pool_replicas import DrainMark
from workslice_operator.status_urgency import Urgency, urgency

NOW = "2026-01-01T00:00:00Z"
STORED = WorkspacePoolStatus(
    desired_replicas=2,
    queue_depth=3,
    slices=SliceStatus(profile="1g.10gb", wanted=2, granted=2, free=1),
    scaling=ScalingMemory(desired=2),
    conditions=[condition("Ready", True, "PoolReady", "2 of 2 replicas are ready", 1, NOW)],
)


def changed(**fields: object) -> Urgency:
    return urgency(STORED, STORED.model_copy(update=fields))


def test_an_equal_status_is_not_written() -> None:
    assert changed() is Urgency.NOTHING


def test_slices_that_other_pools_take_are_no_write_of_this_one_but_go_with_the_next() -> None:
    fewer = SliceStatus(profile="1g.10gb", wanted=2, granted=2, free=0)
    assert changed(slices=fewer) is Urgency.NOTHING
    assert changed(slices=fewer, queue_depth=9) is Urgency.NUMBERS


@pytest.mark.parametrize(
    "fields",
    [
        {"queue_depth": 9},
        {"queue_depth": None},
        {"scaling": ScalingMemory(desired=2, lower=[LowerDemand(since=NOW, replicas=1)])},
        {"scaling": ScalingMemory(desired=2, last_depths=[1, 2], usual_depth_milli=1500)},
        {"conditions": [condition("Ready", True, "PoolReady", "1 of 3 replicas are ready", 1, NOW)]},
    ],
    ids=["depth", "depth unknown", "pending scale-down", "depths", "figures in a message"],
)
def test_numbers_can_wait(fields: dict[str, object]) -> None:
    assert changed(**fields) is Urgency.NUMBERS


@pytest.mark.parametrize(
    "fields",
    [
        {"desired_replicas": 3},
        {"ready_replicas": 1},
        {"observed_generation": 2},
        {"draining": ["uid"]},
        {"drain_marks": [DrainMark(name="a", uid="uid", since=NOW)]},
        {"scaling": ScalingMemory(desired=1)},
        {"conditions": [condition("Ready", False, "PoolNotReady", "2 of 2 replicas are ready", 1, NOW)]},
        {"conditions": [condition("Ready", True, "PoolReady", "something else happened", 1, NOW)]},
    ],
    ids=["desired", "ready", "generation", "draining", "drain mark", "scaling", "condition", "message"],
)
def test_decisions_are_written_at_once(fields: dict[str, object]) -> None:
    assert changed(**fields) is Urgency.DECISION


def test_a_scale_down_that_is_off_is_written_at_once_lest_a_restart_makes_it_happen() -> None:
    pending = ScalingMemory(desired=2, lower=[LowerDemand(since=NOW, replicas=1)])
    stored = STORED.model_copy(update={"scaling": pending})
    assert urgency(stored, STORED) is Urgency.DECISION
