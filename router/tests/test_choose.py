"""Choosing pools and replicas."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from routed_pools import LONG, SHORT, replicas, table_of

from workslice_router.choose import best_replica, has_hope, pools_in_order
from workslice_router.ejection import Outcome, settled
from workslice_router.routing_table import PoolSpec, RoutingTable

CANARY = replace(SHORT, key="serving/canary", weight=25)
STABLE = replace(SHORT, key="serving/stable", weight=75)


def order(table: RoutingTable, class_name: str, total: int, class_only: bool = False, random: float = 0.0) -> list[str]:
    routes = table.routes["tiny"]
    chosen = next(one for one in routes.classes if one.name == class_name)
    return [pool.key for pool in pools_in_order(routes, chosen, total, total, total, class_only, random)]


def test_pools_of_a_class_share_by_weight() -> None:
    table = table_of((CANARY, replicas("a")), (STABLE, replicas("b")))
    drawn = Counter(order(table, "short", 10, random=step / 1000)[0] for step in range(1000))
    assert drawn == {"serving/canary": 250, "serving/stable": 750}


def test_weight_zero_takes_nothing() -> None:
    table = table_of((replace(CANARY, weight=0), replicas("a")), (STABLE, replicas("b")))
    assert order(table, "short", 10, random=0.0) == ["serving/stable"]


def test_a_pool_without_replicas_is_drawn_last() -> None:
    table = table_of((CANARY, replicas("a")), (STABLE, ()))
    assert order(table, "short", 10, random=0.99) == ["serving/canary", "serving/stable"]


def test_spills_only_where_the_class_holds_the_request() -> None:
    table = table_of((SHORT, replicas("a")), (LONG, replicas("b")))
    assert order(table, "short", 10) == ["serving/short", "serving/long"]
    assert order(table, "long", 10) == ["serving/long", "serving/short"]
    assert order(table, "long", 5000) == ["serving/long"]


def test_does_not_spill_where_the_longest_answer_would_be_cut() -> None:
    table = table_of((SHORT, replicas("a")), (LONG, replicas("b")))
    routes = table.routes["tiny"]
    got = [pool.key for pool in pools_in_order(routes, routes.classes[1], 500, 500, 2001, False, 0.0)]
    assert got == ["serving/long"]


def test_spills_no_prompt_to_a_pool_that_wants_shorter_ones() -> None:
    table = table_of((replace(SHORT, class_prompt_tokens=9), replicas("a")), (LONG, replicas("b")))
    assert order(table, "long", 9) == ["serving/long", "serving/short"]
    assert order(table, "long", 10) == ["serving/long"]


def test_a_class_that_was_asked_for_is_not_left() -> None:
    table = table_of((SHORT, replicas("a")), (LONG, replicas("b")))
    assert order(table, "short", 10, class_only=True) == ["serving/short"]


def test_pools_of_the_class_whose_context_is_too_small_are_passed_over() -> None:
    small = replace(LONG, key="serving/small", class_tokens=4000, context_tokens=4000)
    table = table_of((LONG, replicas("a")), (small, replicas("b")))
    assert order(table, "long", 6000, random=0.99) == ["serving/long"]
    assert order(table, "long", 20_000, random=0.99) == ["serving/long"], "too large for all by estimate: the largest"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5000)), min_size=1, max_size=8))
def test_takes_the_replica_with_the_least_outstanding_work_among_those_with_room(loads: list[tuple[int, int]]) -> None:
    table = table_of((SHORT, replicas(*(f"pod-{index}" for index in range(len(loads))))))
    pool = table.pools["serving/short"]
    for replica, (in_flight, tokens) in zip(pool.replicas, loads, strict=True):
        replica.in_flight, replica.outstanding_tokens = in_flight, tokens
    best = best_replica(pool, (), 0.0)
    room = [one for one in pool.replicas if one.in_flight < pool.spec.max_concurrent]
    assert (best is None) == (not room)
    if best is not None:
        assert (best.outstanding_tokens, best.in_flight) == min((one.outstanding_tokens, one.in_flight) for one in room)


def test_passes_over_replicas_that_are_not_ready_draining_gone_ejected_or_excluded() -> None:
    listed = [*replicas("a", ready=False), *replicas("b", draining=True), *replicas("c", "d", "e", "f")]
    table = table_of((SHORT, listed))
    pool = table.pools["serving/short"]
    by_uid = {one.uid: one for one in pool.replicas}
    by_uid["c"].listed = False
    by_uid["d"].health = settled(by_uid["d"].health, Outcome.CONNECT_FAILED, 0.0, False)
    best = best_replica(pool, {"e"}, 0.5)
    assert best is by_uid["f"]


def spec(desired: int) -> PoolSpec:
    return replace(SHORT, desired_replicas=desired)


def test_there_is_hope_while_a_replica_lives_or_is_still_to_come() -> None:
    assert has_hope(table_of((spec(1), replicas("a"))).pools["serving/short"], ())
    assert has_hope(table_of((spec(1), replicas("a", ready=False))).pools["serving/short"], ())
    assert has_hope(table_of((spec(2), replicas("a"))).pools["serving/short"], {"a"})
    assert not has_hope(table_of((spec(0), ())).pools["serving/short"], ())
    assert not has_hope(table_of((spec(1), replicas("a"))).pools["serving/short"], {"a"})
