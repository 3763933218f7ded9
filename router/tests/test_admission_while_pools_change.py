"""Requests that wait while pools come, go or change."""

from dataclasses import replace

from routed_pools import SHORT, Bench, replicas, table_of

from workslice_router.ejection import Outcome
from workslice_router.openai_errors import Reason


def test_those_who_wait_are_refused_as_soon_as_nothing_is_coming_any_more() -> None:
    bench = Bench(table_of((replace(SHORT, desired_replicas=1), replicas("a", ready=False))))
    asker, _ = bench.wait()
    bench.table.put_pool(replace(SHORT, desired_replicas=0))
    bench.table.commit()
    assert [cause.reason for cause in asker.refusals] == [Reason.NO_REPLICAS]


def test_a_pool_that_comes_while_requests_wait_takes_them() -> None:
    bench = Bench(table_of((SHORT, replicas("a"))))
    for _ in range(2):
        bench.lease()
    asker, _ = bench.wait()
    twin = replace(SHORT, key="serving/twin")
    bench.table.put_pool(twin)
    bench.table.put_replicas(twin.key, replicas("b"))
    bench.table.commit()
    assert [lease.pool.key for lease in asker.leases] == ["serving/twin"]


def test_those_who_wait_for_a_pool_that_goes_find_its_sibling_or_a_clear_end() -> None:
    twin = replace(SHORT, key="serving/twin")
    bench = Bench(table_of((SHORT, replicas("a")), (twin, replicas("b"))))
    for _ in range(4):
        bench.lease()
    asker, ticket = bench.wait()
    bench.table.remove_pool(ticket.pool.key)
    bench.table.commit()
    assert bench.admission.waiting == 1
    survivor = bench.table.pools[next(iter(bench.table.pools))]
    assert len(survivor.queue) == 1
    bench.table.remove_pool(survivor.key)
    bench.table.commit()
    assert [cause.reason for cause in asker.refusals] == [Reason.NO_REPLICAS]


def test_a_ticket_that_moved_to_another_pool_can_still_be_cancelled() -> None:
    twin = replace(SHORT, key="serving/twin")
    bench = Bench(table_of((SHORT, replicas("a")), (twin, replicas("b"))))
    leases = [bench.lease() for _ in range(4)]
    asker, ticket = bench.wait()
    bench.table.remove_pool(ticket.pool.key)
    bench.table.commit()
    ticket.cancel()
    for lease in leases:
        lease.settle(Outcome.OK)
    assert not asker.leases
    bench.assert_idle()


def test_a_weight_that_becomes_zero_moves_those_who_wait() -> None:
    twin = replace(SHORT, key="serving/twin", weight=0)
    bench = Bench(table_of((SHORT, replicas("a")), (twin, replicas("b"))))
    for _ in range(2):
        bench.lease()
    asker, _ = bench.wait()
    bench.table.put_pool(replace(twin, weight=1))
    bench.table.put_pool(replace(SHORT, weight=0))
    bench.table.commit()
    assert asker.leases[0].pool.key == "serving/twin"
