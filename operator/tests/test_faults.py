import pytest
from pool_objects import raw_pool, raw_profile
from pool_world import KEY, World

from workslice_api.base import Condition
from workslice_api.names import ConditionType, Reason
from workslice_operator.faults import faults
from workslice_operator.metrics import Metrics


def one(type_: str, status: str, reason: str) -> Condition:
    return Condition.model_validate(
        {"type": type_, "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    )


@pytest.mark.parametrize(
    ("type_", "status", "reason", "fault"),
    [
        (ConditionType.ENGINES_READY, "False", Reason.CRASH_LOOPING, True),
        (ConditionType.ENGINES_READY, "False", Reason.STARTING, False),
        (ConditionType.ENGINES_READY, "True", Reason.ALL_READY, False),
        (ConditionType.SLICES_GRANTED, "Unknown", Reason.SLICES_UNKNOWN, False),
        (ConditionType.DEGRADED, "True", Reason.FOREIGN_FIELDS, True),
        (ConditionType.DEGRADED, "False", Reason.AS_EXPECTED, False),
        (ConditionType.SCALING, "Unknown", Reason.SIGNAL_UNKNOWN, True),
        (ConditionType.ACCEPTED, "False", Reason.SLICE_NOT_IN_CLUSTER, True),
        (ConditionType.FITS, "False", Reason.DOES_NOT_FIT, True),
        (ConditionType.FITS, "False", Reason.FOUND_NOT_TO_FIT, False),
        (ConditionType.FITS, "Unknown", Reason.SHAPE_UNKNOWN, False),
        (ConditionType.READY, "False", Reason.POOL_NOT_READY, False),
        ("ByNewerVersion", "False", "Whatever", False),
    ],
)
def test_a_condition_that_needs_a_person_is_a_fault(type_: str, status: str, reason: str, fault: bool) -> None:
    assert faults([one(type_, status, reason)]) == ({(type_, reason)} if fault else set())


async def test_the_faults_of_a_pool_are_metrics_until_they_are_over() -> None:
    world = World(raw_pool())
    await world.reconcile()
    series = 'pool_fault{condition="ProfileReady",namespace="shop",pool="chat",reason="ProfileNotFound"} 1.0'
    assert series in world.metrics.render().decode()
    world.kube.put(raw_profile())
    await world.reconcile()
    assert 'condition="ProfileReady"' not in world.metrics.render().decode()
    world.kube.remove("WorkspaceProfile", "", "small")
    await world.reconcile()
    world.kube.remove("WorkspacePool", "shop", "chat")
    await world.reconciler.reconcile(KEY)
    assert "pool_fault{" not in world.metrics.render().decode()


def test_faults_of_one_object_leave_those_of_another_alone() -> None:
    metrics = Metrics()
    metrics.show_faults("profile_fault", {("Accepted", "SliceNotInCluster")}, "a")
    metrics.show_faults("profile_fault", {("Accepted", "SliceNotInCluster")}, "b")
    metrics.show_faults("profile_fault", (), "a")
    text = metrics.render().decode()
    assert 'profile="b"' in text
    assert 'profile="a"' not in text
