"""Which replica takes a request by service levels."""

import time
from dataclasses import replace

from routed_pools import LONG, SHORT, Bench, replicas, table_of

from workslice_router.admission import Lease
from workslice_router.ejection import Outcome
from workslice_router.replica_load import FIRST_PACE, ReplicaLoad, ServiceLevel, Work
from workslice_router.routing_table import RoutingTable
from workslice_router.soft_choice import best_place, cost

FAST, SLOW = ServiceLevel(0.5, 0.05), ServiceLevel(12.0, 0.1)
QUICK = replace(SHORT, context_tokens=100_000, level=FAST, max_concurrent=64)
LARGE = replace(LONG, class_tokens=100_000, context_tokens=100_000, level=SLOW, max_concurrent=64)


def soft(short: int = 1, long: int = 1) -> Bench:
    shorts, longs = replicas(*(f"s{n}" for n in range(short))), replicas(*(f"l{n}" for n in range(long)))
    return Bench(table_of((QUICK, shorts), (LARGE, longs)), first_answer=100)


def put(bench: Bench, prompt: int, **facts: object) -> Lease:
    return bench.lease(prompt_tokens=prompt, prompt_size=0, **facts)


def uids(*leases: Lease) -> list[str]:
    return [lease.replica.uid for lease in leases]


def test_each_class_goes_to_its_own_pool_while_that_is_free() -> None:
    bench = soft()
    assert uids(put(bench, 1000), put(bench, 50_000)) == ["s0", "l0"]


def test_short_requests_of_a_crowd_use_the_larger_pool_as_well() -> None:
    bench = soft()
    assert set(uids(*(put(bench, 1500) for _ in range(6)))) == {"s0", "l0"}


def test_a_short_request_rather_waits_a_little_than_meeting_a_long_prompt() -> None:
    bench = soft()
    put(bench, 90_000)
    assert uids(put(bench, 500), put(bench, 500)) == ["s0", "s0"]


def test_long_requests_use_replicas_of_the_smaller_pool_when_their_own_are_deep_in_work() -> None:
    bench = soft()
    assert set(uids(*(put(bench, 60_000) for _ in range(4)))) == {"s0", "l0"}


def busy(level: ServiceLevel | None, *, answering: bool) -> ReplicaLoad:
    load = ReplicaLoad()
    work = Work(500, 100, level)
    load.add(work, 0.0, FIRST_PACE)
    if answering:
        load.answered(work)
    return load


def test_a_request_costs_more_beside_answers_that_have_to_be_fast() -> None:
    costs = [cost(busy(level, answering=True), 60_000, 100, SLOW, FIRST_PACE) for level in (None, SLOW, FAST)]
    assert costs == sorted(costs)
    assert len(set(costs)) == 3


def test_a_request_costs_more_beside_requests_that_wait_for_a_first_token_which_should_come_soon() -> None:
    costs = [cost(busy(level, answering=False), 60_000, 100, SLOW, FIRST_PACE) for level in (None, SLOW, FAST)]
    assert costs == sorted(costs)
    assert len(set(costs)) == 3


def test_a_class_that_was_asked_for_is_not_left_however_full_it_is() -> None:
    bench = soft()
    assert set(uids(*(put(bench, 1500, requested_class="short") for _ in range(20)))) == {"s0"}


def test_a_pool_whose_class_says_nothing_lends_nothing_to_larger_requests() -> None:
    table = table_of((replace(QUICK, level=None), replicas("s0")), (LARGE, replicas("l0")))
    bench = Bench(table, first_answer=100)
    assert set(uids(*(put(bench, 60_000) for _ in range(6)))) == {"l0"}


def test_a_pool_that_is_too_small_for_a_request_never_gets_it() -> None:
    table = table_of((replace(QUICK, context_tokens=4000), replicas("s0")), (LARGE, replicas("l0")))
    bench = Bench(table, first_answer=100)
    assert set(uids(*(put(bench, 60_000) for _ in range(6)))) == {"l0"}


def class_of_two() -> Bench:
    """The first of the two pools of the class is drawn."""
    one, other = replace(QUICK, key="serving/a", max_concurrent=1), replace(QUICK, key="serving/b")
    return Bench(table_of((one, replicas("a0")), (other, replicas("b0")), (LARGE, replicas("l0"))), first_answer=100)


def test_what_the_drawn_pool_of_the_class_has_no_place_for_goes_to_the_other_one() -> None:
    bench = class_of_two()
    assert uids(put(bench, 1000), put(bench, 1000)) == ["a0", "b0"]


def test_what_comes_while_the_drawn_pool_of_the_class_rests_goes_to_the_other_one() -> None:
    bench = class_of_two()
    put(bench, 1000).settle(Outcome.CONNECT_FAILED)
    assert uids(put(bench, 1000)) == ["b0"]


def test_the_pools_of_a_class_share_by_weight_while_they_have_places() -> None:
    one, other = replace(QUICK, key="serving/a", weight=75), replace(QUICK, key="serving/b", weight=25)
    bench = Bench(table_of((one, replicas("a0")), (other, replicas("b0"))), first_answer=100)
    drawn = []
    for step in range(20):
        bench.random = step / 20
        drawn += uids(put(bench, 300))
    assert (drawn.count("a0"), drawn.count("b0")) == (15, 5)


def test_a_failed_replica_is_not_tried_again() -> None:
    bench = soft(short=2)
    leases = [put(bench, 1000, excluded=["s0"]) for _ in range(3)]
    assert "s0" not in uids(*leases)


def test_a_request_that_waits_takes_the_place_that_another_class_leaves() -> None:
    table = table_of(
        (replace(QUICK, max_concurrent=1), replicas("s0")), (replace(LARGE, max_concurrent=1), replicas("l0"))
    )
    bench = Bench(table, first_answer=100)
    short = put(bench, 1000)
    put(bench, 60_000)
    asker, _ = bench.wait(prompt_tokens=60_000, prompt_size=0)
    short.settle(Outcome.OK)
    assert uids(*asker.leases) == ["s0"]


def test_a_pace_that_was_learned_outlives_changes_of_the_pool_but_not_of_its_engines() -> None:
    table: RoutingTable = table_of((QUICK, replicas("s0")))
    pool = table.pools[QUICK.key]
    learned = pool.pace = replace(pool.pace, tokens_per_second=123.0)
    table.put_pool(replace(QUICK, weight=3))
    assert pool.pace is learned
    other = replace(QUICK.first_pace, chunk=2048, at_once=1)
    table.put_pool(replace(QUICK, first_pace=other))
    assert pool.pace is other


def test_an_engine_that_hangs_does_not_draw_requests() -> None:
    bench = soft(short=2)
    drawn = 0
    for _ in range(100):
        lease = put(bench, 1000)
        if lease.replica.uid == "s0":
            drawn += 1  # no token ever comes
        else:
            bench.now += 0.2
            lease.answered()
            lease.settle(Outcome.OK)
        bench.now += 0.3
    assert drawn < 15


def seconds_of_a_choice(waiting: int) -> float:
    """Of one core, with so many prompts on each of 16 replicas; between two choices a prompt comes and one goes."""
    bench = Bench(table_of((replace(QUICK, max_concurrent=4096), replicas(*(f"s{n}" for n in range(16))))))
    pool, chosen = bench.table.pools[QUICK.key], bench.table.routes["tiny"].classes[0]
    works = [Work(100.0 + 7919 * n % 9000, 100, FAST) for n in range(16 * waiting)]
    for number, work in enumerate(works):
        pool.replicas[number % 16].load.add(work, bench.now, pool.pace)
    best = float("inf")
    for start in range(0, 100, 20):
        began = time.process_time()
        for number in range(start, start + 20):
            assert best_place([pool], chosen, 1000, 100, FAST, (), bench.now)
            pool.replicas[number % 16].load.remove(works[number])
            pool.replicas[number % 16].load.add(works[number], bench.now, pool.pace)
        best = min(best, (time.process_time() - began) / 20)
    return best


def test_a_choice_takes_hardly_longer_where_hundreds_of_prompts_wait() -> None:
    assert seconds_of_a_choice(512) < 6 * seconds_of_a_choice(64)


def test_choosing_among_eight_replicas_is_cheap() -> None:
    bench = soft(short=2, long=6)
    for _ in range(8):
        put(bench, 1000).answered()
    pools, best = list(bench.table.pools.values()), float("inf")
    chosen = bench.table.routes["tiny"].classes[0]
    for _ in range(50):
        began = time.process_time()
        for _ in range(100):
            best_place(pools, chosen, 1000, 100, FAST, (), bench.now)
        best = min(best, (time.process_time() - began) / 100)
    assert best < 40e-6, "ten microseconds on a quiet core; the rest is for slow machines"
