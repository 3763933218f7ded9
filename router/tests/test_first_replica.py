"""When those who find no replica ready, and may not wait, are told to come back."""

from dataclasses import replace

import pytest
from routed_pools import SHORT, Bench, replicas, table_of

from workslice_router.first_replica import SOON, seconds_to_first_replica
from workslice_router.openai_errors import Reason, Refusal, Refused

COLD = replace(SHORT, desired_replicas=1, cold_start_wait=10.0, start_seconds=40.0)


def after(refusal: Refusal) -> int:
    return int(dict(refusal.headers)[b"retry-after"])


def given_up(bench: Bench, seconds: float) -> Refusal:
    asker, _ = bench.wait()
    bench.now += seconds
    bench.admission.tick()
    (refusal,) = asker.refusals
    return refusal


def refused(bench: Bench) -> Refusal:
    with pytest.raises(Refused) as caught:
        bench.ask()
    return caught.value.refusal


@pytest.mark.parametrize(
    ("start", "missed", "expected"), [(40.0, 100.0, 30.0), (40.0, 60.0, SOON), (None, 100.0, SOON), (40.0, None, SOON)]
)
def test_the_first_replica_is_expected_a_usual_start_after_it_was_missed(
    start: float | None, missed: float | None, expected: float
) -> None:
    assert seconds_to_first_replica(start, missed, now=110.0) == expected


def test_who_gives_up_before_a_replica_has_started_is_told_when_it_may_be_there() -> None:
    refusal = given_up(Bench(table_of((COLD, ()))), 10.0)
    assert (refusal.reason, after(refusal)) == (Reason.NO_REPLICAS, 30)


def test_who_comes_later_is_told_the_rest_of_the_same_start() -> None:
    bench = Bench(table_of((COLD, ())))
    given_up(bench, 10.0)
    bench.now += 10.0
    assert after(given_up(bench, 10.0)) == 10
    assert after(given_up(bench, 10.0)) == 5
    bench.now += 1000.0
    assert after(given_up(bench, 10.0)) == 5


def test_the_next_start_is_counted_anew() -> None:
    bench = Bench(table_of((COLD, ())))
    bench.wait()
    bench.now += 9.0
    bench.table.put_replicas(COLD.key, replicas("a"))
    bench.table.commit()
    bench.now += 100.0
    bench.table.put_replicas(COLD.key, ())
    bench.table.commit()
    assert after(given_up(bench, 10.0)) == 30


def test_a_start_that_nobody_waited_for_to_the_end_is_over_all_the_same() -> None:
    bench = Bench(table_of((COLD, ())))
    given_up(bench, 10.0)
    bench.table.put_replicas(COLD.key, replicas("a"))
    bench.table.commit()
    bench.now += 100.0
    bench.table.put_replicas(COLD.key, ())
    bench.table.commit()
    assert after(given_up(bench, 10.0)) == 30


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 60), (1.0, 75)])
def test_nobody_is_sent_away_for_much_more_than_a_minute_nor_all_for_as_long(chance: float, expected: int) -> None:
    bench = Bench(table_of((replace(COLD, start_seconds=900.0), ())))
    bench.random = chance
    assert after(given_up(bench, 10.0)) == expected


def test_a_full_queue_in_front_of_a_start_says_when_that_ends() -> None:
    bench = Bench(table_of((replace(COLD, queue_depth=1), ())))
    bench.wait()
    bench.now += 8.0
    refusal = refused(bench)
    assert (refusal.reason, after(refusal)) == (Reason.QUEUE_FULL, 32)


@pytest.mark.parametrize(
    "spec", [replace(COLD, start_seconds=None), replace(COLD, desired_replicas=0)], ids=["not known", "none wanted"]
)
def test_where_nothing_is_known_or_to_be_expected_it_is_five_seconds(spec: object) -> None:
    bench = Bench(table_of((spec, ())))  # type: ignore[arg-type]
    refusal = given_up(bench, 10.0) if bench.table.pools[SHORT.key].spec.desired_replicas else refused(bench)
    assert (refusal.reason, after(refusal)) == (Reason.NO_REPLICAS, 5)
