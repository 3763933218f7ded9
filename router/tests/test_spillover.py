"""Pools that keep to their class, and how long requests wait for the first replica."""

from dataclasses import replace

import pytest
from routed_pools import LONG, SHORT, Bench, replicas, table_of, view

from workslice_router.ejection import Outcome
from workslice_router.openai_errors import Reason
from workslice_router.replica_load import ServiceLevel

LEVEL = ServiceLevel(0.5, 0.05)
STRICT = replace(SHORT, context_tokens=8000, strict=True, max_concurrent=1)
ONE_LONG = replace(LONG, max_concurrent=1)


def test_a_strict_pool_takes_no_request_of_another_class() -> None:
    for level in (None, LEVEL):
        pools = ((replace(STRICT, level=level), replicas("s")), (replace(ONE_LONG, level=level), replicas("l")))
        bench = Bench(table_of(*pools))
        bench.lease(prompt_size=5000)
        _, ticket = bench.wait(prompt_size=5000)
        assert (ticket.pool.key, bench.table.pools[SHORT.key].running) == (LONG.key, 0)


def test_requests_of_a_strict_pools_class_go_to_no_other_class() -> None:
    for level in (None, LEVEL):
        pools = ((replace(STRICT, level=level), replicas("s")), (replace(ONE_LONG, level=level), replicas("l")))
        bench = Bench(table_of(*pools))
        bench.lease()
        asker, ticket = bench.wait()
        assert (ticket.pool.key, bench.table.pools[LONG.key].running) == (SHORT.key, 0)
        bench.lease(prompt_size=5000).settle(Outcome.OK)
        assert not asker.leases, "nor when a place of the other class comes free"


def test_a_strict_pool_that_frees_a_place_leaves_those_of_other_classes_waiting() -> None:
    large = replace(ONE_LONG, class_name="large", class_tokens=1500)
    bench = Bench(table_of((STRICT, replicas("s")), (large, replicas("l"))))
    own, other = bench.lease(requested_class="short"), bench.lease(requested_class="large")
    asker, ticket = bench.wait()
    assert ticket.pool.key == LONG.key, "the smallest class that holds it"
    own.settle(Outcome.OK)
    assert not asker.leases
    other.settle(Outcome.OK)
    assert asker.leases


@pytest.mark.parametrize("becomes", [True, False], ids=["strict", "soft"])
def test_whether_a_pool_is_strict_counts_at_once_for_those_who_wait(becomes: bool) -> None:
    short, long = (replace(one, max_concurrent=1) for one in (SHORT, LONG))
    bench = Bench(table_of((replace(short, strict=not becomes), replicas("s")), (long, replicas("l"))))
    _, on_long = bench.lease(), bench.lease(prompt_size=5000)
    asker, _ = bench.wait()
    bench.table.put_pool(replace(short, strict=becomes))
    bench.table.commit()
    on_long.settle(Outcome.OK)
    assert [lease.pool.key for lease in asker.leases] == ([] if becomes else [LONG.key])


def test_pools_of_one_class_help_each_other_out_however_strict() -> None:
    twin = replace(STRICT, key="serving/twin")
    bench = Bench(table_of((STRICT, replicas("s")), (twin, replicas("t"))))
    assert {bench.lease().pool.key for _ in range(2)} == {SHORT.key, twin.key}


def test_a_prompt_that_an_engine_finds_too_long_leaves_a_strict_pool() -> None:
    bench = Bench(table_of((replace(STRICT, context_tokens=2000), replicas("s")), (ONE_LONG, replicas("l"))))
    plan = bench.admission.larger(bench.lease(prompt_size=1000), view(prompt_size=1000))
    assert plan is not None
    assert plan.chosen.name == "long"


COLD = replace(SHORT, desired_replicas=1, queue_wait=10.0, cold_start_wait=100.0, max_concurrent=1)


def reasons(bench: Bench, seconds: float) -> list[Reason]:
    """What one that waits has been told after so many seconds."""
    asker, _ = bench.wait()
    bench.now += seconds
    bench.admission.tick()
    return [cause.reason for cause in asker.refusals]


def test_for_the_first_replica_a_request_waits_longer_than_for_a_place() -> None:
    for seconds, expected in ((99.0, []), (100.0, [Reason.NO_REPLICAS])):
        assert reasons(Bench(table_of((COLD, replicas("a", ready=False)))), seconds) == expected


def test_a_cold_start_may_also_be_given_less_time() -> None:
    hasty = replace(COLD, cold_start_wait=0.0)
    assert reasons(Bench(table_of((hasty, ()))), 0.0) == [Reason.NO_REPLICAS]


def test_when_the_last_replica_goes_those_who_wait_are_given_the_time_of_a_start() -> None:
    bench = Bench(table_of((COLD, replicas("a"))))
    bench.lease()
    asker, _ = bench.wait()
    bench.table.put_replicas(SHORT.key, ())
    bench.table.commit()
    bench.now += 50.0
    bench.admission.tick()
    assert not asker.refusals
    bench.table.put_replicas(SHORT.key, replicas("b"))
    bench.table.commit()
    assert [lease.replica.uid for lease in asker.leases] == ["b"]


def test_who_waited_for_a_start_has_its_time_for_the_place_as_well() -> None:
    bench = Bench(table_of((replace(COLD, queue_wait=60.0, cold_start_wait=30.0), replicas("a", ready=False))))
    first, _ = bench.wait()
    second, _ = bench.wait()
    bench.now += 20.0
    bench.table.put_replicas(SHORT.key, replicas("a"))
    bench.table.commit()
    assert first.leases
    bench.now += 20.0
    bench.admission.tick()
    assert not second.refusals, "a replica is there now, so that a minute counts"
