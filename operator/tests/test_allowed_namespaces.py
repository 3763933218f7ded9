from dataclasses import replace
from typing import Any

import pytest
from pool_facts import INSTALLATION, NOW, SLICE, make_deployment, make_observed, make_pool, make_profile, ready_pod

from workslice_api.base import Condition
from workslice_api.conditions import find_condition
from workslice_api.names import ConditionType, Reason
from workslice_operator.observed import QueueSignal
from workslice_operator.plan import Plan, plan
from workslice_operator.slice_inventory import NodeSlices, SliceInventory

ELSEWHERE = make_profile(allowedNamespaces=["lab"])
HERE = make_profile(allowedNamespaces=["lab", "shop"])
RUNNING: dict[str, Any] = {"deployment": make_deployment(2), "pods": (ready_pod("a"), ready_pod("b"))}


def profile_ready(planned: Plan) -> Condition:
    found = find_condition(planned.status.conditions, ConditionType.PROFILE_READY)
    assert found is not None
    return found


@pytest.mark.parametrize("allowed", [["lab"], ["sho", "shop-2"], []])
def test_a_pool_of_another_namespace_starts_nothing_and_says_what_to_do(allowed: list[str]) -> None:
    planned = plan(make_observed(profile=make_profile(allowedNamespaces=allowed)), INSTALLATION, NOW)
    assert (planned.apply, planned.status.desired_replicas) == ((), 0)
    said = profile_ready(planned)
    assert (said.status, said.reason) == ("False", Reason.PROFILE_NOT_ALLOWED)
    assert "add shop to allowedNamespaces of the profile" in said.message


@pytest.mark.parametrize("allowed", [None, ["lab", "shop"]])
def test_a_namespace_that_is_named_may_and_without_the_field_every_one_may(allowed: list[str] | None) -> None:
    planned = plan(make_observed(profile=make_profile(allowedNamespaces=allowed)), INSTALLATION, NOW)
    assert len(planned.apply) == 4
    assert profile_ready(planned).status == "True"


def test_a_pool_goes_on_when_its_namespace_is_added() -> None:
    before = plan(make_observed(profile=ELSEWHERE), INSTALLATION, NOW)
    planned = plan(make_observed(make_pool(status=before.status.to_wire()), profile=HERE), INSTALLATION, NOW)
    assert len(planned.apply) == 4


@pytest.mark.parametrize("replicas", [0, 3])
def test_engines_are_left_alone_when_their_namespace_is_taken_out(replicas: int) -> None:
    observed = make_observed(make_pool(replicas=replicas), profile=ELSEWHERE, **RUNNING)
    planned = plan(observed, INSTALLATION, NOW)
    assert (planned.apply, planned.mark, planned.status.drain_marks) == ((), (), [])
    assert (planned.status.desired_replicas, planned.status.ready_replicas) == (2, 2)


def test_nobody_waits_for_a_pool_that_sleeps_and_may_not_wake() -> None:
    scaling = {"mode": "QueueDepth", "maxReplicas": 2, "scaleToZeroAfter": "30m"}
    asleep = make_pool(scaling=scaling, status={"scaling": {"asleep": True, "asked": 5}})
    observed = make_observed(asleep, profile=HERE, deployment=make_deployment(0), signal=QueueSignal(0, 0, asked=5))
    engines = [
        find_condition(plan(one, INSTALLATION, NOW).status.conditions, ConditionType.ENGINES_READY)
        for one in (observed, replace(observed, profile=ELSEWHERE))
    ]
    assert [one and one.reason for one in engines] == [Reason.SCALED_TO_ZERO, Reason.NOT_STARTED]


def test_nothing_is_said_to_start_elsewhere_for_a_pool_that_is_left_alone() -> None:
    emptied = NodeSlices("node-1", "", False, {SLICE: 2}, {SLICE: 2}, cordoned=True)
    free = NodeSlices("node-2", "", True, {SLICE: 2}, {})
    here = make_observed(make_pool(replicas=2), profile=HERE, inventory=SliceInventory((emptied, free)), **RUNNING)
    here = replace(here, pods=tuple(replace(pod, node="node-1") for pod in here.pods))
    draining = [
        find_condition(plan(one, INSTALLATION, NOW).status.conditions, ConditionType.DRAINING)
        for one in (here, replace(here, profile=ELSEWHERE))
    ]
    assert [one and one.reason for one in draining] == [Reason.REPLACING_CORDONED, Reason.NOT_DRAINING]
