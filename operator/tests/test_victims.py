from datetime import timedelta
from typing import Any

import pytest
from pool_facts import NOW, make_observed, make_pod, make_pool, ready_pod, unplaced_pod

from workslice_operator.observed import PodFacts, ReplicaUse, RouterReport
from workslice_operator.slice_inventory import NodeSlices, SliceInventory
from workslice_operator.victims import certain_to_go, choose_victims

HUNG = make_pod("hung", started=True)


def chosen(pods: tuple[PodFacts, ...], count: int = 1, marked: tuple[str, ...] = (), **facts: Any) -> list[str]:
    marks = [{"name": name, "uid": f"uid-{name}", "since": NOW.isoformat()} for name in marked]
    observed = make_observed(make_pool(status={"drainMarks": marks}), pods=pods, **facts)
    return [pod.name for pod in choose_victims(observed, count)]


def uses(**in_flight: int) -> RouterReport:
    return RouterReport(NOW, 1, {f"uid-{name}": ReplicaUse(count, 0, False) for name, count in in_flight.items()})


def test_the_order_is_that_of_a_replica_set() -> None:
    pods = (ready_pod("ready"), HUNG, make_pod("pulls", phase="Pending"), unplaced_pod("unplaced", "no"))
    assert chosen(pods, 4) == ["unplaced", "pulls", "hung", "ready"]


def test_the_emptiest_of_the_ready_ones_goes() -> None:
    assert chosen((ready_pod("a"), ready_pod("b"), ready_pod("c")), routers=uses(a=3, b=1, c=2)) == ["b"]


def test_the_youngest_of_equals_goes() -> None:
    assert chosen((ready_pod("a", age=50), ready_pod("b", age=10), ready_pod("c", age=90))) == ["b"]


def test_one_that_is_asked_to_go_stays_chosen_although_another_has_become_emptier() -> None:
    assert chosen((ready_pod("a"), ready_pod("b")), marked=("a",), routers=uses(a=5, b=0)) == ["a"]


def test_a_replica_that_is_not_ready_takes_the_place_of_a_marked_one() -> None:
    assert chosen((ready_pod("a"), HUNG), marked=("a",)) == ["hung"]


def test_one_on_a_cordoned_node_goes_before_an_emptier_one() -> None:
    inventory = SliceInventory((NodeSlices("old", "", False, {}, {}, cordoned=True),))
    pods = (ready_pod("a", node="new"), ready_pod("b", node="old"))
    assert chosen(pods, routers=uses(a=0, b=4), inventory=inventory) == ["b"]


def test_pods_on_their_way_out_are_not_chosen_again() -> None:
    assert chosen((ready_pod("a", deleting=True), make_pod("b", phase="Failed"), ready_pod("c")), 3) == ["c"]


@pytest.mark.parametrize(
    ("live", "wanted", "costs", "expected"),
    [
        ((ready_pod("a"), ready_pod("b")), "a", {}, ""),
        ((ready_pod("a", deletion_cost=-9), ready_pod("b")), "a", {}, "a"),
        ((ready_pod("a"), ready_pod("b")), "a", {"uid-a": -9}, ""),
        ((ready_pod("a", deletion_cost=-9), ready_pod("b")), "a", {"uid-b": -9}, ""),
        ((ready_pod("a", deletion_cost=-9), make_pod("b")), "a", {}, ""),
        ((make_pod("a"), ready_pod("b", deletion_cost=-9)), "a", {}, "a"),
        ((ready_pod("a", deletion_cost=-9), ready_pod("b", deletion_cost=-9)), "ab", {}, "ab"),
        ((ready_pod("a", deletion_cost=-9), ready_pod("b"), ready_pod("c")), "ab", {}, "a"),
    ],
    ids=[
        "equal costs",
        "lower cost",
        "cost just being written",
        "other gets the same cost",
        "other is not ready",
        "not ready itself",
        "all of them",
        "only the first is certain",
    ],
)
def test_only_those_go_that_the_replica_set_must_take(
    live: tuple[PodFacts, ...], wanted: str, costs: dict[str, int], expected: str
) -> None:
    asked = [pod for pod in live if pod.name in wanted]
    assert "".join(pod.name for pod in certain_to_go(live, asked, costs)) == expected


def test_a_pod_without_a_creation_time_can_be_ordered() -> None:
    pods = (ready_pod("a", created_at=None), ready_pod("b", created_at=NOW - timedelta(seconds=1)))
    assert chosen(pods, 2) == ["b", "a"]
