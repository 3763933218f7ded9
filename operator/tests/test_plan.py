from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pool_facts import (
    INSTALLATION,
    LLAMA_SHAPE,
    NOW,
    make_deployment,
    make_exit,
    make_inventory,
    make_observed,
    make_pod,
    make_pool,
    make_profile,
    ready_pod,
    unplaced_pod,
)

from workslice_api.conditions import find_condition
from workslice_api.names import ConditionType, Reason
from workslice_api.ownership import Conflict
from workslice_operator.observed import Observed, QueueSignal
from workslice_operator.plan import RESYNC_SECONDS, Plan, plan, plan_after_failed_apply
from workslice_operator.rollout_facts import ReplicaSetFacts

CHILDREN = ["NetworkPolicy", "Service", "PodDisruptionBudget", "Deployment"]
BURST = {"mode": "QueueDepth", "minReplicas": 1, "maxReplicas": 4, "targetPerReplica": 2, "scaleDownWindow": "60s"}


def planned(observed: Observed, seconds: float = 0) -> Plan:
    return plan(observed, INSTALLATION, NOW + timedelta(seconds=seconds))


def kinds(result: Plan) -> list[str]:
    return [one["kind"] for one in result.apply]


def reason(result: Plan, type_: ConditionType) -> str:
    found = find_condition(result.status.conditions, type_)
    assert found is not None
    return found.reason


def status(result: Plan, type_: ConditionType) -> str:
    found = find_condition(result.status.conditions, type_)
    assert found is not None
    return found.status


def after(result: Plan, **spec: Any) -> Any:
    return make_pool(status=result.status.to_wire(), **spec)


def test_a_new_pool_gets_its_children_the_policy_first_and_the_deployment_last() -> None:
    result = planned(make_observed(make_pool(replicas=2)))
    assert kinds(result) == CHILDREN
    assert result.apply[-1]["spec"]["replicas"] == 2


def test_a_pool_whose_replicas_all_answer_is_ready() -> None:
    result = planned(make_observed(deployment=make_deployment(), pods=(ready_pod(),)))
    assert status(result, ConditionType.READY) == "True"
    assert (result.status.replicas, result.status.ready_replicas, result.status.desired_replicas) == (1, 1, 1)
    assert result.requeue_after == RESYNC_SECONDS


def test_every_condition_that_is_not_rare_is_always_present() -> None:
    wanted = {str(one) for one in ConditionType} - {
        ConditionType.ACCEPTED,
        ConditionType.FITS,
        ConditionType.OUTDATED,
        ConditionType.PAUSED,
    }
    for observed in (make_observed(), make_observed(profile=None), make_observed(conflict=Conflict("m", "n", "p"))):
        assert {one.type for one in planned(observed).status.conditions} == wanted


def test_a_pool_without_its_profile_makes_nothing_and_says_so() -> None:
    result = planned(make_observed(profile=None))
    assert result.apply == ()
    assert reason(result, ConditionType.PROFILE_READY) == Reason.PROFILE_NOT_FOUND
    assert status(result, ConditionType.READY) == "False"
    assert [one.reason for one in result.events] == [Reason.PROFILE_NOT_FOUND]


def test_a_pool_heals_when_its_profile_appears() -> None:
    waiting = planned(make_observed(profile=None))
    result = planned(make_observed(after(waiting)))
    assert kinds(result) == CHILDREN
    assert status(result, ConditionType.PROFILE_READY) == "True"


def test_engines_of_a_deleted_profile_stay_untouched_and_counted() -> None:
    pool = make_pool(replicas=3)
    result = planned(
        make_observed(pool, profile=None, deployment=make_deployment(2), pods=(ready_pod("a"), ready_pod("b")))
    )
    assert result.apply == ()
    assert (result.status.desired_replicas, result.status.ready_replicas) == (2, 2)
    assert status(result, ConditionType.ENGINES_READY) == "True"
    assert status(result, ConditionType.READY) == "False"


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (make_profile(workspace={"maxTokens": 1024}), Reason.CLASS_EXCEEDS_CONTEXT),
        (make_profile(engine={"batchedTokens": 32}), Reason.PROFILE_INVALID),
    ],
    ids=["class larger than context", "batch smaller than sequences"],
)
def test_a_profile_that_does_not_fit_the_pool_builds_nothing(profile: Any, expected: Reason) -> None:
    result = planned(make_observed(profile=profile))
    assert result.apply == ()
    assert reason(result, ConditionType.PROFILE_READY) == expected


def test_a_profile_that_cannot_be_read_is_quoted() -> None:
    result = planned(make_observed(profile=None, profile_error="spec.slice: missing"))
    found = find_condition(result.status.conditions, ConditionType.PROFILE_READY)
    assert found is not None
    assert (found.reason, "spec.slice: missing" in found.message) == (Reason.PROFILE_INVALID, True)


def test_a_pool_in_conflict_makes_nothing_and_names_the_owner() -> None:
    result = planned(make_observed(conflict=Conflict("tiny", "other", "first")))
    assert result.apply == ()
    found = find_condition(result.status.conditions, ConditionType.CONFLICT)
    assert found is not None
    assert (found.status, "belongs to pool other/first" in found.message) == ("True", True)
    assert status(result, ConditionType.READY) == "False"


def test_a_pool_holds_its_names_unless_it_is_in_conflict() -> None:
    assert planned(make_observed()).status.models == ["tiny"]
    assert planned(make_observed(conflict=Conflict("tiny", "other", "first"))).status.models == []


def test_a_pool_that_comes_into_conflict_gives_its_slices_back() -> None:
    result = planned(
        make_observed(conflict=Conflict("tiny", "other", ""), deployment=make_deployment(2), pods=(ready_pod("a"),))
    )
    assert kinds(result) == ["Deployment"]
    assert result.apply[0]["spec"]["replicas"] == 1, "what serves drains first"
    assert result.status.draining == ["uid-a"]


def test_a_pool_that_leaves_its_conflict_starts_at_its_minimum() -> None:
    pool = make_pool(scaling=BURST)
    lost = planned(make_observed(pool, conflict=Conflict("tiny", "other", ""), deployment=make_deployment(0)))
    result = planned(make_observed(after(lost, scaling=BURST), deployment=make_deployment(0)))
    assert result.apply[-1]["spec"]["replicas"] == 1


def test_a_child_whose_name_is_taken_is_left_alone() -> None:
    result = planned(make_observed(taken_names=("Service/short-engine",)))
    assert kinds(result) == ["NetworkPolicy", "PodDisruptionBudget", "Deployment"]
    assert reason(result, ConditionType.DEGRADED) == Reason.NAME_TAKEN


def test_demand_decides_the_replicas_and_an_event_tells_it() -> None:
    first = planned(make_observed(make_pool(scaling=BURST), signal=QueueSignal(0, 0)))
    observed = make_observed(
        after(first, scaling=BURST), deployment=make_deployment(1), pods=(ready_pod(),), signal=QueueSignal(3, 2)
    )
    result = planned(observed)
    assert result.apply[-1]["spec"]["replicas"] == 3
    assert (result.status.queue_depth, result.status.scaling.desired) == (5, 3)
    (event,) = [one for one in result.events if one.reason is Reason.SCALED_UP]
    assert event.message.startswith("from 1 to 3 replicas")


def test_a_size_that_someone_sets_where_demand_decides_is_named_in_the_condition_and_in_one_event() -> None:
    scaled: Any = {"scaling": BURST, "replicas": 5}
    facts: Any = {"deployment": make_deployment(1), "pods": (ready_pod(),), "signal": QueueSignal(0, 0)}
    first = planned(make_observed(make_pool(**scaled), **facts))
    (event,) = [one for one in first.events if one.reason is Reason.REPLICAS_NOT_USED]
    assert event.message.startswith(
        "spec.replicas (5, as kubectl scale sets it) is not used in mode QueueDepth: set scaling.min"
    )
    said = find_condition(first.status.conditions, ConditionType.SCALING)
    assert said is not None
    assert said.message == f"queue depth asks for 1 replica; {event.message}"
    assert planned(make_observed(after(first, **scaled), **facts)).events == ()
    again = planned(make_observed(after(first, scaling=BURST, replicas=6), **facts))
    assert [one.reason for one in again.events] == [Reason.REPLICAS_NOT_USED]


@pytest.mark.parametrize(
    "spec", [{"replicas": 5}, {"scaling": BURST}, {"scaling": BURST, "replicas": 1}], ids=["Fixed", "unset", "default"]
)
def test_a_size_that_is_used_or_that_nobody_set_is_not_complained_of(spec: Any) -> None:
    result = planned(make_observed(make_pool(**spec), deployment=make_deployment(1), signal=QueueSignal(0, 0)))
    assert Reason.REPLICAS_NOT_USED not in [one.reason for one in result.events]
    said = find_condition(result.status.conditions, ConditionType.SCALING)
    assert said is not None
    assert "not used" not in said.message


def test_a_pool_that_grows_stays_ready_while_the_scheduler_looks_for_a_place() -> None:
    pods = (ready_pod("a"), unplaced_pod("b", ""))
    pool = make_pool(scaling=BURST)
    result = planned(make_observed(pool, deployment=make_deployment(2), pods=pods, signal=QueueSignal(0, 4)))
    assert status(result, ConditionType.SLICES_GRANTED) == "Unknown"
    assert status(result, ConditionType.READY) == "True"


def test_unknown_demand_is_shown_as_unknown() -> None:
    result = planned(make_observed(make_pool(scaling=BURST), deployment=make_deployment(1), pods=(ready_pod(),)))
    assert result.status.queue_depth is None
    assert status(result, ConditionType.SCALING) == "Unknown"
    assert status(result, ConditionType.READY) == "True"


def test_the_end_of_the_window_is_looked_at_in_time() -> None:
    lower = [{"since": (NOW - timedelta(seconds=20)).isoformat(), "replicas": 1}]
    memory = {"scaling": {"desired": 2, "lower": lower}}
    pods = (ready_pod("a"), ready_pod("b"))
    pool = make_pool(status=memory, scaling=BURST)
    result = planned(make_observed(pool, deployment=make_deployment(2), pods=pods, signal=QueueSignal(0, 0)))
    assert result.requeue_after == 40


def test_a_starting_replica_is_looked_at_when_its_time_is_over() -> None:
    assert planned(make_observed(deployment=make_deployment(), pods=(make_pod(age=500),))).requeue_after == 100


def test_a_scheduler_that_does_not_see_a_free_slice_is_looked_at_again_soon_but_not_for_ever() -> None:
    pods = (unplaced_pod("a", "0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb."),)
    observed = make_observed(deployment=make_deployment(), inventory=make_inventory(small=(1, 0)), pods=pods)
    assert planned(observed).requeue_after == 4
    assert planned(replace(observed, disagreement=60)).requeue_after == 10


def test_a_replica_without_a_slice_is_looked_at_often_since_slices_send_no_events() -> None:
    pods = (unplaced_pod("a", "0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb."),)
    result = planned(make_observed(deployment=make_deployment(), inventory=make_inventory(small=(1, 1)), pods=pods))
    assert result.requeue_after == 10
    assert (result.status.slices.wanted, result.status.slices.granted, result.status.slices.free) == (1, 0, 0)


def test_replicas_that_go_are_named_for_the_routers() -> None:
    pods = (ready_pod("b", deleting=True), ready_pod("a"))
    result = planned(make_observed(deployment=make_deployment(), pods=pods))
    assert result.status.draining == ["uid-b"]
    assert status(result, ConditionType.DRAINING) == "True"
    assert result.status.replicas == 1


def test_a_fault_is_an_event_once_and_again_only_when_its_kind_changes() -> None:
    broken = make_observed(deployment=make_deployment(), pods=(make_pod(last_exit=make_exit("boom")),))
    first = planned(broken)
    assert Reason.CRASH_LOOPING in [one.reason for one in first.events]
    again = planned(make_observed(after(first), deployment=make_deployment(), pods=broken.pods))
    assert again.events == ()
    refused = make_observed(after(first), deployment=make_deployment(), replica_sets=(ReplicaSetFacts("r", 1, "no"),))
    assert [one.reason for one in planned(refused).events] == [Reason.PODS_REFUSED]


def test_becoming_ready_is_an_event() -> None:
    ready = make_observed(deployment=make_deployment(), pods=(ready_pod(),))
    first = planned(ready)
    assert [one.reason for one in first.events if one.type == "Normal"][-1] is Reason.POOL_READY
    assert planned(make_observed(after(first), deployment=make_deployment(), pods=ready.pods)).events == ()


def test_a_foreign_variable_is_named_in_the_status_and_in_an_event() -> None:
    engine = {'k:{"name":"engine"}': {"f:env": {'k:{"name":"PROXY"}': {".": {}, "f:value": {}}}}}
    fields = {"f:spec": {"f:template": {"f:spec": {"f:containers": engine}}}}
    touched = make_deployment(1, ({"manager": "kubectl-set", "operation": "Update", "fieldsV1": fields},))
    result = planned(make_observed(deployment=touched, pods=(ready_pod(),)))
    (event,) = [one for one in result.events if one.reason is Reason.FOREIGN_FIELDS]
    assert "container engine: env PROXY (by kubectl-set)" in event.message
    assert status(result, ConditionType.READY) == "True"


def test_a_fallback_model_that_nobody_serves_is_named_and_harms_nothing_else() -> None:
    result = planned(make_observed(deployment=make_deployment(1), pods=(ready_pod(),), unserved_fallback="spare-model"))
    (event,) = [one for one in result.events if one.reason is Reason.FALLBACK_NOT_SERVED]
    assert "spare-model" in event.message
    assert reason(result, ConditionType.DEGRADED) == Reason.FALLBACK_NOT_SERVED
    assert status(result, ConditionType.READY) == "True"


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    first = planned(make_observed())
    later = planned(make_observed(after(first)), seconds=50)
    assert later.status == first.status


def test_a_refused_manifest_is_quoted_and_keeps_its_time() -> None:
    observed = make_observed()
    first = plan_after_failed_apply(planned(observed), observed, "the API refused the Deployment: no", NOW)
    assert reason(first, ConditionType.DEGRADED) == Reason.APPLY_FAILED
    assert first.events[-1].reason is Reason.APPLY_FAILED
    again = make_observed(after(first))
    second = plan_after_failed_apply(
        planned(again, 60), again, "the API refused the Deployment: no", NOW + timedelta(60)
    )
    assert second.status == first.status
    assert second.events == ()


PODS = st.sampled_from(
    [
        ready_pod("a"),
        make_pod("b"),
        make_pod("c", age=9999),
        unplaced_pod("d", "0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb."),
        unplaced_pod("e", ""),
        ready_pod("f", deleting=True),
        make_pod("g", phase="Failed", failure="Evicted"),
        make_pod("h", last_exit=make_exit("boom", reason="OOMKilled")),
        make_pod("i", waiting_reason="ImagePullBackOff"),
        make_pod("j", started=True),
    ]
)


@example(
    pods=[],
    profile=make_profile(),
    conflict=None,
    replicas=None,
    scaling=BURST,
    signal=QueueSignal(0, 3),
    inventory=None,
)
@example(
    pods=[ready_pod("a"), ready_pod("b")],
    profile=make_profile(),
    conflict=None,
    replicas=None,
    scaling=BURST,
    signal=QueueSignal(0, 3),
    inventory=None,
)
@given(
    pods=st.lists(PODS, max_size=6, unique_by=lambda pod: pod.name),
    profile=st.sampled_from([None, make_profile(), make_profile(workspace={"maxTokens": 64})]),
    conflict=st.sampled_from([None, Conflict("tiny", "other", "first")]),
    replicas=st.none() | st.integers(0, 5),
    scaling=st.sampled_from([{}, BURST]),
    signal=st.none() | st.builds(QueueSignal, st.integers(0, 50), st.integers(0, 50)),
    inventory=st.sampled_from([None, make_inventory(small=(3, 1)), make_inventory(large=(1, 1))]),
)
def test_any_state_of_the_world_has_one_plan_that_settles(
    pods: Any, profile: Any, conflict: Any, replicas: Any, scaling: Any, signal: Any, inventory: Any
) -> None:
    facts: dict[str, Any] = {
        "profile": profile,
        "conflict": conflict,
        "deployment": None if replicas is None else make_deployment(replicas),
        "pods": tuple(pods),
        "signal": signal,
        "inventory": inventory,
    }
    first = planned(make_observed(make_pool(scaling=scaling), **facts))
    assert first == planned(make_observed(make_pool(scaling=scaling), **facts))
    assert first.requeue_after >= 1
    broken = [one for one in first.status.conditions if one.status != "True" and not one.message]
    assert broken == []
    second = planned(make_observed(after(first, scaling=scaling), **facts))
    assert second.status.conditions == first.status.conditions
    assert second.events == ()


def test_a_pool_whose_model_has_no_room_deploys_nothing_and_says_what_would_do() -> None:
    profile = make_profile(model={"source": "/models/llama", "shape": LLAMA_SHAPE})
    result = planned(make_observed(profile=profile, inventory=make_inventory(small=(1, 0), large=(1, 0))))
    assert result.apply == ()
    found = find_condition(result.status.conditions, ConditionType.PROFILE_READY)
    assert found is not None
    assert (found.status, found.reason) == ("False", Reason.PROFILE_DOES_NOT_FIT)
    assert "weights 15.0 GiB" in found.message
    assert found.message.endswith("use a 1g.20gb slice (19.6 GiB)")


def test_engines_of_a_profile_that_no_longer_fits_stay_untouched() -> None:
    profile = make_profile(model={"source": "/models/llama", "shape": LLAMA_SHAPE})
    observed = make_observed(
        profile=profile, inventory=make_inventory(small=(1, 1)), deployment=make_deployment(1), pods=(ready_pod("a"),)
    )
    result = planned(observed)
    assert (result.apply, result.mark) == ((), ())
    assert (result.status.desired_replicas, result.status.ready_replicas) == (1, 1)
