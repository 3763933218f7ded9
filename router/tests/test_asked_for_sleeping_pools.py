"""A pool without replicas hears of the requests that another serves in its place."""

from dataclasses import replace

import pytest
from routed_pools import LONG, SHORT, Bench, replicas, table_of


def test_a_request_that_goes_elsewhere_is_counted_where_it_belongs() -> None:
    bench = Bench(table_of((replace(SHORT, desired_replicas=1), ()), (LONG, replicas("l"))))
    assert bench.lease().pool.key == LONG.key
    pools = bench.table.pools
    assert (pools[SHORT.key].asked, pools[LONG.key].asked) == (1, 1)


def test_replicas_that_drain_away_are_none() -> None:
    bench = Bench(table_of((SHORT, replicas("s", draining=True)), (LONG, replicas("l"))))
    bench.lease()
    assert bench.table.pools[SHORT.key].asked == 1


def test_a_request_to_a_pool_that_has_replicas_is_counted_once() -> None:
    bench = Bench(table_of((SHORT, replicas("s")), (LONG, replicas("l"))))
    bench.ask()
    assert (bench.table.pools[SHORT.key].asked, bench.table.pools[LONG.key].asked) == (1, 0)


@pytest.mark.parametrize("asleep", [True, False])
def test_whoever_wakes_pools_hears_of_requests_for_those_that_sleep_and_of_no_other(asleep: bool) -> None:
    bench = Bench(table_of((replace(SHORT, desired_replicas=1, asleep=asleep), ()), (LONG, replicas("l"))))
    told: list[str] = []
    bench.table.on_asked_in_vain = lambda: told.append("told")
    bench.lease()
    assert (bench.table.asked_in_vain, len(told)) == ((1, 1) if asleep else (0, 0))
    assert bench.table.pools[SHORT.key].asked == 1
