"""A request that one replica has failed, and that must wait for another one, never gets the failed replica meanwhile."""

from dataclasses import replace

from routed_pools import SHORT, Asker, Bench, replicas, table_of

from workslice_router.admission import Lease
from workslice_router.ejection import Outcome
from workslice_router.waiting_room import Ticket

ONE_EACH = replace(SHORT, max_concurrent=1)


def failed_on_a_while_b_is_busy() -> tuple[Bench, Lease, Asker]:
    """Replicas a and b with room for one request each; b runs one, and one that a has failed waits."""
    bench = Bench(table_of((ONE_EACH, replicas("a", "b"))))
    first, busy = bench.lease(), bench.lease()
    assert (first.replica.uid, busy.replica.uid) == ("a", "b")
    first.settle(Outcome.RESET)
    asker, placed = bench.ask(excluded=["a"])
    assert isinstance(placed, Ticket)
    return bench, busy, asker


def test_it_waits_on_when_the_failed_replica_is_free_again():
    bench, busy, asker = failed_on_a_while_b_is_busy()
    bench.now += 5.0  # the rest of a is over
    bench.admission.tick()
    assert asker.leases == []
    busy.settle(Outcome.OK)
    assert [lease.replica.uid for lease in asker.leases] == ["b"]


def test_others_pass_it_to_the_replica_that_it_avoids():
    bench, _, asker = failed_on_a_while_b_is_busy()
    bench.now += 5.0
    assert bench.table.pools["serving/short"].replicas[0].uid == "a"
    other, _ = bench.wait()
    bench.admission.tick()
    assert [lease.replica.uid for lease in other.leases] == ["a"]
    assert asker.leases == []


def test_it_takes_the_failed_replica_when_there_is_no_other_left():
    bench, _, asker = failed_on_a_while_b_is_busy()
    bench.now += 5.0
    bench.table.put_replicas(ONE_EACH.key, replicas("a"))
    bench.table.commit()
    bench.admission.tick()
    assert [lease.replica.uid for lease in asker.leases] == ["a"]


def test_it_still_avoids_the_failed_replica_when_it_moves_to_another_pool():
    bench, _, asker = failed_on_a_while_b_is_busy()
    other = replace(ONE_EACH, key="serving/other")
    bench.table.put_pool(other)
    bench.table.put_replicas(other.key, replicas("a", "c"))
    bench.table.pools[other.key].replicas[1].in_flight = 1  # c is full
    bench.table.remove_pool(ONE_EACH.key)
    bench.table.commit()
    bench.admission.tick()
    assert (bench.admission.waiting, asker.leases, asker.refusals) == (1, [], [])
