"""Caps of replicas that are new, or that others use, in the router's own accounts."""

from dataclasses import replace

import pytest
from routed_pools import SHORT, Bench, replicas, table_of

from workslice_router.admission import Lease
from workslice_router.ejection import Outcome
from workslice_router.engine_gauges import EngineGauges
from workslice_router.replica_gauges import take_gauges
from workslice_router.replica_limits import FIRST_REQUESTS, WARM_SECONDS

WIDE = replace(SHORT, max_concurrent=40)


def tick(bench: Bench, seconds: float = 1.1) -> None:
    bench.now += seconds
    bench.admission.tick()


def beside(*uids: str) -> Bench:
    """A pool of a warm replica and then of these new ones as well."""
    bench = Bench(table_of((WIDE, replicas("old"))))
    tick(bench)
    bench.table.put_replicas(WIDE.key, replicas("old", *uids))
    bench.table.commit()
    return bench


def on(leases: list[Lease], uid: str) -> list[Lease]:
    return [lease for lease in leases if lease.replica.uid == uid]


def test_a_replica_that_comes_to_others_is_not_flooded() -> None:
    bench = beside("new")
    leases = [bench.lease() for _ in range(20)]
    assert len(on(leases, "new")) == FIRST_REQUESTS
    for lease in on(leases, "new"):
        lease.settle(Outcome.OK)
    tick(bench)
    more = [bench.lease() for _ in range(20)]
    assert FIRST_REQUESTS < len(on(more, "new")) < 20


def test_a_new_replica_is_like_the_others_after_some_seconds_even_without_work() -> None:
    bench = beside("new")
    tick(bench)
    tick(bench, WARM_SECONDS)
    leases = [bench.lease() for _ in range(70)]
    assert len(on(leases, "new")) == 35


def test_the_first_replicas_of_a_pool_take_all_at_once() -> None:
    bench = Bench(table_of((WIDE, ())))
    tick(bench)
    bench.table.put_replicas(WIDE.key, replicas("a", "b"))
    bench.table.commit()
    assert len({bench.lease().replica.uid for _ in range(80)}) == 2
    tick(bench)
    assert [one.dispatch_cap for one in bench.table.pools[WIDE.key].replicas] == [40, 40]


@pytest.mark.parametrize("state", [{"draining": True}, {"ready": False}], ids=["drains", "is not ready"])
def test_a_replica_that_comes_to_one_that_serves_no_more_takes_all_at_once(state: dict[str, bool]) -> None:
    bench = Bench(table_of((WIDE, replicas("old"))))
    tick(bench)
    bench.table.put_replicas(WIDE.key, [*replicas("old", **state), *replicas("new")])
    bench.table.commit()
    leases = [bench.lease() for _ in range(30)]
    tick(bench)
    leases += [bench.lease() for _ in range(10)]
    assert len(on(leases, "new")) == 40


def test_a_new_replica_takes_over_at_once_when_the_others_fail() -> None:
    bench = beside("new")
    bench.admission.hold_back(bench.table.pools[WIDE.key], bench.table.pools[WIDE.key].replicas[1])
    tick(bench)
    assert len(on([bench.lease() for _ in range(40)], "new")) == 40


def test_a_replica_that_is_not_ready_yet_only_begins_when_it_is() -> None:
    bench = Bench(table_of((WIDE, replicas("old"))))
    tick(bench)
    for ready in (False, True):
        bench.table.put_replicas(WIDE.key, [*replicas("old"), *replicas("new", ready=ready)])
        bench.table.commit()
        tick(bench, 2 * WARM_SECONDS if not ready else 1.1)
    assert len(on([bench.lease() for _ in range(30)], "new")) == FIRST_REQUESTS


def test_one_request_larger_than_a_cache_does_not_leave_the_other_replicas_idle() -> None:
    bench = Bench(table_of((WIDE, replicas("a", "b", "c", "d"))))
    for one in bench.table.pools[WIDE.key].replicas:
        one.kv_tokens = 20_000
    giant = bench.lease(choices=1000)
    askers = []
    for _ in range(30):
        askers += [bench.ask()[0] for _ in range(2)]
        tick(bench)
    others = [one for one in bench.table.pools[WIDE.key].replicas if one is not giant.replica]
    assert bench.admission.waiting == 0
    assert all(one.in_flight >= 10 for one in others)


@pytest.mark.parametrize(("derives", "at_once"), [(True, 18), (False, 40)], ids=["derived", "set"])
def test_a_cap_that_somebody_has_set_replaces_the_one_that_the_cache_would_allow(derives: bool, at_once: int) -> None:
    bench = Bench(table_of((replace(WIDE, derives_cap=derives), replicas("a"))))
    (pool,) = bench.table.pools.values()
    pool.replicas[0].kv_tokens = 4000
    bench.lease()
    tick(bench)
    for _ in range(50):
        bench.ask()
    assert pool.replicas[0].in_flight == at_once


def test_places_that_others_use_are_not_taken_and_partly_given_back_when_their_load_is_unknown() -> None:
    bench = Bench(table_of((WIDE, replicas("a"))))
    (pool,) = bench.table.pools.values()
    take_gauges(pool, pool.replicas[0], EngineGauges(35, 0, 0.1, None), 0, bench.now)
    mine = [bench.lease()]
    take_gauges(pool, pool.replicas[0], EngineGauges(36, 0, 0.1, None), 1, bench.now)
    assert pool.replicas[0].dispatch_cap < 10
    for _ in range(50):
        take_gauges(pool, pool.replicas[0], EngineGauges(11, 0, 0.1, None), 1, bench.now)
    take_gauges(pool, pool.replicas[0], None, 0, bench.now)
    assert pool.replicas[0].dispatch_cap == 4, "a tenth of the load was ours"
    assert len(mine) == 1


def test_routers_share_the_places_that_the_cache_allows_and_not_those_of_the_profile() -> None:
    bench = Bench(table_of((WIDE, replicas("a"))))
    (pool,) = bench.table.pools.values()
    (one,) = pool.replicas
    one.kv_tokens = 4000
    for _ in range(9):
        bench.lease()
    tick(bench)
    assert one.dispatch_cap == 18, "alone"
    for _ in range(20):
        take_gauges(pool, one, EngineGauges(18, 0, 0.1, 4000), 9, bench.now)
    assert 9 <= one.dispatch_cap <= 10, "half of the load is others', and all places are taken"
    take_gauges(pool, one, None, 0, bench.now)
    assert 9 <= one.dispatch_cap <= 10, "and so it is while nobody knows"


def test_routers_that_are_all_full_do_not_take_more_with_every_look() -> None:
    bench = Bench(table_of((WIDE, replicas("a"))))
    (pool,) = bench.table.pools.values()
    (one,) = pool.replicas
    one.kv_tokens = 4000
    for _ in range(8):
        bench.lease()
    for look in range(60):
        tick(bench)
        take_gauges(pool, one, EngineGauges(2 * one.in_flight, 0, 0.9, 4000), one.in_flight, bench.now)
        if look > 20 and one.in_flight < one.dispatch_cap:
            bench.lease()
    assert one.in_flight <= 10, "the cache holds 18"


def test_giants_that_took_the_places_of_small_requests_do_not_keep_them() -> None:
    bench = Bench(table_of((replace(WIDE, queue_depth=1000), replicas("a"))))
    (one,) = bench.table.pools[WIDE.key].replicas
    one.kv_tokens = 8000
    small = [bench.lease(max_tokens=1) for _ in range(40)]
    askers = [bench.ask(prompt_size=1000)[0] for _ in range(300)]
    for _ in range(30):
        tick(bench)
        running = [lease for lease in (*small, *(got for asker in askers for got in asker.leases)) if lease.open]
        for lease in running[:8]:
            lease.settle(Outcome.OK)
    assert 0 < one.sizes <= 8000


def test_requests_of_others_count_like_own_ones_from_the_first_look_on() -> None:
    large = replace(SHORT, max_concurrent=256, class_tokens=131_072, context_tokens=131_072)
    bench = Bench(table_of((large, replicas("a"))))
    (pool,) = bench.table.pools.values()
    (one,) = pool.replicas
    one.kv_tokens = 250_000
    bench.lease(max_tokens=100)
    tick(bench)
    take_gauges(pool, one, EngineGauges(11, 0, 0.01, 250_000), 1, bench.now)
    assert one.dispatch_cap >= 20, "the cache is nearly empty"


def test_one_request_waits_no_longer_than_the_next_look_for_a_place_that_others_leave() -> None:
    bench = Bench(table_of((WIDE, replicas("a"))))
    (pool,) = bench.table.pools.values()
    take_gauges(pool, pool.replicas[0], EngineGauges(60, 0, 0.1, None), 0, bench.now)
    mine = [bench.lease() for _ in range(pool.replicas[0].dispatch_cap)]
    assert len(mine) < 5
    asker, _ = bench.wait()
    take_gauges(pool, pool.replicas[0], EngineGauges(len(mine), 0, 0.1, None), len(mine), bench.now)
    bench.admission.places_changed(pool)
    assert len(asker.leases) == 1
