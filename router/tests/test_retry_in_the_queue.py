"""A request that one replica has failed, and that must wait for another one, never gets the failed replica meanwhile."""

import asyncio
from dataclasses import replace

from routed_pools import SHORT, Asker, Bench, replicas, table_of
from router_under_test import chat, pool, running_router, until
from scripted_engine import HELLO, EngineRequest, Wire, response, scripted_engine

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


def test_the_time_at_a_failed_engine_counts_as_no_wait():
    bench = Bench(table_of((replace(ONE_EACH, queue_wait=60.0), replicas("a", "b"))))
    long_one, busy = bench.lease(), bench.lease()
    bench.now += 300.0
    asker = Asker()
    plan = long_one.settle_to_retry(long_one.plan, Outcome.RESET)
    bench.admission.submit(plan, asker, body_bytes=1, excluded=frozenset({"a"}))
    bench.now += 59.0
    bench.admission.tick()
    assert asker.refusals == []
    busy.settle(Outcome.OK)
    assert [lease.replica.uid for lease in asker.leases] == ["b"]


def test_a_failed_request_may_wait_for_half_of_its_time_however_long_it_has_waited():
    cold = replace(ONE_EACH, queue_wait=60.0, desired_replicas=1)
    bench = Bench(table_of((cold, ())))
    asker, _ = bench.wait()
    bench.now += 200.0
    bench.table.put_replicas(cold.key, replicas("a", "b"))
    bench.table.commit()
    busy, lease = bench.lease(), asker.leases.pop()
    plan = lease.settle_to_retry(lease.plan, Outcome.RESET)
    bench.admission.submit(plan, asker, body_bytes=1, excluded=frozenset({lease.replica.uid}))
    bench.now += 29.0
    bench.admission.tick()
    assert asker.refusals == []
    bench.now += 1.0
    bench.admission.tick()
    assert asker.refusals
    busy.settle(Outcome.OK)
    bench.assert_idle()


async def test_a_request_that_ran_for_longer_than_it_may_wait_still_waits_for_another_replica():
    async def dies_late(request: EngineRequest, wire: Wire) -> None:
        await asyncio.sleep(0.6)
        assert wire.transport is not None
        wire.transport.abort()

    busy = asyncio.Event()

    async def waits(request: EngineRequest, wire: Wire) -> None:
        await busy.wait()
        wire.write(response(HELLO))

    async with (
        scripted_engine(dies_late) as one,
        scripted_engine(waits) as two,
        running_router(one, two, spec=pool(max_concurrent=1, queue_wait=0.4)) as router,
    ):
        asked = [asyncio.create_task(router.ask(chat())) for _ in range(2)]
        await until(lambda: router.admission.waiting == 1)
        await asyncio.sleep(0.2)  # two looks at who has waited too long
        assert router.admission.waiting == 1
        busy.set()
        answers = await asyncio.gather(*asked)
    assert [answer.status for answer in answers] == [200, 200]
