"""When a rollout may have one replica more, and when it goes back to one less."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pool_facts import (
    INSTALLATION,
    LARGE_SLICE,
    NOW,
    SLICE,
    make_deployment,
    make_inventory,
    make_observed,
    make_pod,
    make_pool,
    make_profile,
    ready_pod,
    unplaced_pod,
)
from rolling_world import BROKEN, NO_SLICE, QUOTA, Rolling, World

from workslice_api.conditions import find_condition
from workslice_operator.observed import Observed
from workslice_operator.plan import Plan, plan
from workslice_operator.rollout_facts import ReplicaSetFacts
from workslice_operator.slice_inventory import SliceInventory

CHANGED = make_profile(engine={"extraArgs": ["--enforce-eager"]})
HASH = make_deployment().template_hash
NEW = make_observed(profile=CHANGED)


def strategy(observed: Observed, seconds: float = 0.0) -> tuple[int, int]:
    """Surge and unavailable of the Deployment that is applied."""
    manifest = planned(observed, seconds).apply[-1]
    rolling = manifest["spec"]["strategy"]["rollingUpdate"]
    return rolling["maxSurge"], rolling["maxUnavailable"]


def planned(observed: Observed, seconds: float = 0.0) -> Plan:
    return plan(observed, INSTALLATION, NOW + timedelta(seconds=seconds))


def changed(free: int = 1, waiting: dict[str, int] | None = None, **facts: Any) -> Observed:
    """A pool of one ready replica whose profile has just been changed."""
    inventory = replace(make_inventory(small=(4, 4 - free), large=(9, 0)), waiting=waiting or {})
    base: dict[str, Any] = {"deployment": make_deployment(), "pods": (ready_pod("a"),), "inventory": inventory}
    return make_observed(profile=CHANGED, **{**base, **facts})


def under_way(*more: Any, **facts: Any) -> Observed:
    """A surge of one replica, whose new one is not there yet but for `more` pods."""
    deployment = make_deployment(
        template_hash=planned(changed()).template_hash, outdated_replicas=1, surges=True, **facts.pop("deployment", {})
    )
    return changed(**{"free": 0, "deployment": deployment, "pods": (ready_pod("a"), *more), **facts})


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (changed(), (1, 0)),
        (changed(free=0), (0, 1)),
        (changed(waiting={SLICE: 1}), (0, 1)),
        (changed(free=2, waiting={SLICE: 1}), (1, 0)),
        (changed(waiting={LARGE_SLICE: 5}), (1, 0)),
        (changed(spoken_for=1), (0, 1)),
        (changed(free=2, spoken_for=1), (1, 0)),
        (changed(inventory=None), (0, 1)),
        (changed(pods=(make_pod("a"),)), (0, 1)),
        (changed(free=0, pods=(ready_pod("a"), make_pod("b"))), (1, 0)),
        (changed(replica_sets=(ReplicaSetFacts("rs", 1, QUOTA),)), (0, 1)),
        (changed(deployment=None, pods=()), (0, 1)),
    ],
    ids=[
        "a free slice",
        "none",
        "one that another pod waits for",
        "two, of which one is wanted",
        "pods that wait for another kind",
        "one that another rollout takes",
        "two, of which a rollout takes one",
        "nobody knows",
        "nothing serves",
        "the replica more of a rollout before",
        "a quota refuses pods already",
        "a new pool",
    ],
)
def test_a_rollout_surges_when_a_slice_is_free_that_nobody_else_wants(
    observed: Observed, expected: tuple[int, int]
) -> None:
    assert strategy(observed) == expected


def test_a_pool_needs_the_slices_of_its_own_waiting_replicas_before_that_of_a_surge() -> None:
    waiting = {"pods": (ready_pod("a"), unplaced_pod("b", NO_SLICE)), "waiting": {SLICE: 1}}
    deployment = make_deployment(2)
    pool = make_pool(replicas=2)
    assert strategy(replace(changed(free=1, deployment=deployment, **waiting), pool=pool)) == (0, 1)
    assert strategy(replace(changed(free=2, deployment=deployment, **waiting), pool=pool)) == (1, 0)


@pytest.mark.parametrize("surges", [False, True])
def test_without_a_change_the_strategy_stays_as_it_is(surges: bool) -> None:
    at_rest = make_observed(
        deployment=make_deployment(surges=surges), pods=(ready_pod("a"),), inventory=make_inventory(small=(4, 1))
    )
    assert strategy(at_rest) == ((1, 0) if surges else (0, 1))
    assert strategy(replace(at_rest, inventory=SliceInventory())) == ((1, 0) if surges else (0, 1))


STARTING = make_pod("s", template="new")
NEWEST = (ReplicaSetFacts("old", 1, "", "old", 1), ReplicaSetFacts("new", 2, "", "new", 2))
GOING = ready_pod("gone", deleting=True)
WAITING = unplaced_pod("b", NO_SLICE)


@pytest.mark.parametrize(
    ("observed", "seconds", "expected"),
    [
        (under_way(), 0, (1, 0)),
        (under_way(make_pod("b")), 0, (1, 0)),
        (under_way(WAITING), 0, (0, 1)),
        (under_way(WAITING, free=1), 0, (1, 0)),
        (under_way(WAITING, free=1, disagreement=61), 0, (0, 1)),
        (under_way(unplaced_pod("b", "0/1 nodes are available: 1 Insufficient memory."), free=1), 0, (0, 1)),
        (under_way(WAITING, GOING), 0, (1, 0)),
        (under_way(WAITING, GOING), 600, (0, 1)),
        (under_way(WAITING, STARTING, replica_sets=NEWEST), 0, (1, 0)),
        (under_way(WAITING, replace(STARTING, template="old"), replica_sets=NEWEST), 0, (0, 1)),
        (under_way(unplaced_pod("b", "")), -30, (1, 0)),
        (under_way(unplaced_pod("b", "")), 30, (0, 1)),
        (under_way(replica_sets=(ReplicaSetFacts("rs", 1, QUOTA),)), 0, (0, 1)),
        (under_way(WAITING, deployment={"settled": False}), 0, (1, 0)),
    ],
    ids=[
        "no pod yet",
        "it starts",
        "no slice",
        "the scheduler looks again",
        "the scheduler knows better",
        "no memory",
        "a slice comes back",
        "a slice should have come back",
        "another new one starts, and the pool has grown",
        "an old one starts anew",
        "nobody has said anything yet",
        "nobody says anything",
        "the quota is full",
        "the Deployment controller has not seen it yet",
    ],
)
def test_a_surge_whose_replica_gets_no_place_becomes_a_rollout_without_one(
    observed: Observed, seconds: float, expected: tuple[int, int]
) -> None:
    assert strategy(observed, seconds) == expected


def test_one_that_waits_for_a_place_is_looked_at_again_soon() -> None:
    assert planned(under_way(unplaced_pod("b", ""))).requeue_after <= 10
    assert planned(under_way(make_pod("b"))).requeue_after > 10


def test_a_replica_more_is_no_growth_no_lack_of_slices_and_nothing_to_drain() -> None:
    told = planned(under_way(make_pod("b"))).status.conditions
    reasons = {one.type: one.reason for one in told}
    assert reasons["Scaling"] == "Fixed"
    assert reasons["SlicesGranted"] == "SlicesAvailable"
    assert reasons["Draining"] == "NotDraining"
    ready = find_condition(told, "EnginesReady")
    assert ready is not None
    assert ready.message == "1 of 1 replicas ready; 1 on the previous version until the new one is ready"


def test_a_surge_in_a_status_from_before_marks_no_pod() -> None:
    sets = (ReplicaSetFacts("old", 1, "", "old", 1), ReplicaSetFacts("new", 1, "", "new", 2))
    just_applied = under_way(make_pod("b"), deployment={"settled": False}, replica_sets=sets)
    assert planned(just_applied).mark == ()


def test_a_pool_that_is_emptied_during_a_surge_goes_when_both_versions_have_nothing_left() -> None:
    emptied = replace(under_way(make_pod("b")), pool=make_pool(replicas=0))
    first = planned(emptied)
    assert first.apply[-1]["spec"]["replicas"] == 1, "the old one may have requests"
    assert [mark.name for mark in first.status.drain_marks] == ["a"]


def test_two_pools_that_begin_at_the_same_time_do_not_count_the_same_slice() -> None:
    first, second = Rolling("first", 1), Rolling("second", 1)
    world = World(3, first, second)
    world.settle()
    for one in world.pools:
        one.extra_args = ("--enforce-eager",)
        world.operate(one)
    assert (first.strategy, second.strategy) == ((1, 0), (0, 1))
    world.settle()
    assert world.rolled(first)
    assert world.rolled(second)


def test_a_pool_whose_slice_went_to_somebody_else_rolls_all_the_same() -> None:
    one = Rolling("one", 1)
    world = World(2, one)
    world.settle()
    one.extra_args = ("--enforce-eager",)
    world.operate(one)
    assert one.strategy == (1, 0)
    world.foreign = 1
    world.settle()
    assert world.rolled(one)
    assert one.strategy == (0, 1)


def test_a_single_replica_never_leaves_when_its_new_version_crashes_and_the_pool_says_so() -> None:
    one = Rolling("one", 1)
    world = World(2, one)
    world.settle()
    (before,) = one.pods
    one.extra_args = BROKEN
    for _ in range(10):
        world.round()
        assert before.ready
    assert one.pods == [before]
    back = find_condition(one.status.conditions, "Degraded")
    assert back is not None
    assert back.reason == "TakenBack"
    assert world.free == 1


def test_a_fault_of_the_old_replica_is_none_of_the_new_version() -> None:
    one = Rolling("one", 1)
    world = World(2, one)
    world.settle()
    one.extra_args = ("--enforce-eager",)
    world.operate(one)
    world.deployment_controller(one)
    world.replica_sets(one)
    world.scheduler()
    old, _ = one.pods
    old.ready, old.restarts = False, 5
    world.operate(one)
    world.settle()
    assert world.rolled(one)
