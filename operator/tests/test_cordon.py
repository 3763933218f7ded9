from dataclasses import replace
from typing import Any

import pytest
from pool_facts import INSTALLATION, NOW, SLICE, make_deployment, make_observed, make_pod, make_pool, ready_pod

from workslice_api.conditions import find_condition
from workslice_operator.cordon import replacements
from workslice_operator.observed import Observed, PodFacts
from workslice_operator.plan import plan
from workslice_operator.slice_inventory import NodeSlices, SliceInventory


def world(*pods: PodFacts, free: int = 2, cordoned: bool = True) -> Observed:
    placed = sum(pod.node == "new" for pod in pods)
    inventory = SliceInventory(
        (
            NodeSlices("old", "", not cordoned, {SLICE: 3}, {SLICE: 1}, cordoned),
            NodeSlices("new", "", True, {SLICE: free + placed}, {SLICE: placed}),
        )
    )
    return make_observed(make_pool(), pods=pods, inventory=inventory)


OLD = ready_pod("a", node="old")
STARTING = make_pod("b", node="new")
NEW = ready_pod("b", node="new")


@pytest.mark.parametrize(
    ("observed", "desired", "expected"),
    [
        (world(OLD), 1, 1),
        (world(OLD, free=0), 1, 0),
        (world(OLD, cordoned=False), 1, 0),
        (world(OLD, STARTING, free=0), 1, 1),
        (world(OLD, NEW, free=0), 1, 0),
        (world(OLD, NEW), 2, 1),
        (world(OLD, ready_pod("c", node="old")), 2, 2),
        (world(OLD, ready_pod("c", node="old"), free=1), 2, 1),
        (world(OLD), 0, 0),
    ],
    ids=[
        "a slice elsewhere",
        "no slice elsewhere",
        "not cordoned",
        "the replacement starts",
        "the replacement is ready",
        "one of two",
        "two of two",
        "slices for one of two",
        "nothing wanted",
    ],
)
def test_replicas_on_cordoned_nodes_are_replaced_as_far_as_slices_allow(
    observed: Observed, desired: int, expected: int
) -> None:
    assert replacements(observed, desired) == expected


@pytest.mark.parametrize("facts", [{"profile": None}, {"inventory": None}], ids=["no profile", "no inventory"])
def test_what_is_unknown_replaces_nothing(facts: dict[str, Any]) -> None:
    assert replacements(Observed(**{**vars(world(OLD)), **facts}), 1) == 0


def test_a_pool_grows_by_the_replacement_and_then_drains_the_cordoned_node() -> None:
    def sizes(observed: Observed, replicas: int) -> tuple[int, list[str]]:
        result = plan(replace(observed, deployment=make_deployment(replicas)), INSTALLATION, NOW)
        assert result.status.desired_replicas == 1, "what scaling wants does not change"
        return result.apply[-1]["spec"]["replicas"], [mark.name for mark in result.status.drain_marks]

    assert sizes(world(OLD), 1) == (2, [])
    told = find_condition(
        plan(replace(world(OLD), deployment=make_deployment(1)), INSTALLATION, NOW).status.conditions, "Draining"
    )
    assert told is not None
    assert (told.status, told.reason) == ("True", "ReplacingCordoned")
    assert told.message.startswith("old is cordoned: 1 more start")
    assert sizes(world(OLD, STARTING, free=0), 2) == (2, [])
    assert sizes(world(OLD, NEW, free=0), 2) == (2, ["a"])
    assert sizes(world(NEW), 1) == (1, [])


def test_a_pool_on_a_cordoned_node_is_looked_at_until_a_slice_is_free() -> None:
    waiting = replace(world(OLD, free=0), deployment=make_deployment(1))
    assert plan(waiting, INSTALLATION, NOW).requeue_after <= 10
