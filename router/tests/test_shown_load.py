"""What gauges say of the requests that others have on a replica."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from routed_pools import LONG, SHORT, Bench, replicas, table_of

from workslice_router.ejection import Outcome
from workslice_router.engine_gauges import EngineGauges
from workslice_router.mean_request import MeanRequest
from workslice_router.replica_gauges import take_gauges
from workslice_router.replica_load import FIRST_PACE, ReplicaLoad, ServiceLevel
from workslice_router.shown_load import shown_load
from workslice_router.soft_choice import cost

MEAN = MeanRequest(1000.0, 200.0)
LEVEL = ServiceLevel(0.5, 0.05)
COUNTS = st.integers(0, 10_000)


def price(gauges: EngineGauges | None, prompt: float = 500.0) -> float:
    load = ReplicaLoad()
    if gauges is not None:
        load.shown = shown_load(gauges, 0, 0.0, MEAN)
    return cost(load, prompt, 100, LEVEL, FIRST_PACE)


@given(COUNTS, COUNTS, COUNTS, st.floats(0, 1), st.floats(0, 1e9), st.sampled_from([None, 1, 30_000]))
def test_others_have_what_this_router_has_not_and_never_less_than_nothing(
    running: int, waiting: int, own: int, used: float, held: float, kv_tokens: int | None
) -> None:
    shown = shown_load(EngineGauges(running, waiting, used, kv_tokens), own, held, MEAN)
    assert shown.requests == max(0, running + waiting - own)
    assert abs(shown.prompts + shown.answering - shown.requests) < 1e-6 * max(1, shown.requests)
    assert min(shown.prompts, shown.answering, shown.tokens, shown.held_tokens, shown.kv_used, shown.kv_per_token) >= 0
    assert shown.kv_used <= used


def test_an_engine_that_only_has_our_requests_costs_what_one_without_gauges_costs() -> None:
    assert price(EngineGauges(0, 0, 0.3, 100_000)) == price(None)


def test_a_request_costs_more_where_others_wait_or_run() -> None:
    nobody, running, waiting = (price(EngineGauges(*counts, 0.1, 100_000)) for counts in ((0, 0), (5, 0), (0, 5)))
    assert nobody < running < waiting


def test_a_short_prompt_does_not_wait_for_the_whole_of_others_long_ones() -> None:
    load = ReplicaLoad(shown=shown_load(EngineGauges(0, 2, None, None), 0, 0.0, MeanRequest(60_000.0, 200.0)))
    assert cost(load, 100, 100, LEVEL, FIRST_PACE) - cost(ReplicaLoad(), 100, 100, LEVEL, FIRST_PACE) < 1


def test_a_cache_that_is_nearly_full_is_the_last_choice() -> None:
    free, fuller, full = (price(EngineGauges(8, 0, used, None)) for used in (0.2, 0.89, 0.99))
    assert free == fuller
    assert full > fuller + 8


def test_what_this_router_has_sent_since_counts_as_well() -> None:
    gauges = EngineGauges(8, 0, 0.85, 10_000)
    assert price(gauges, prompt=2000.0) > price(replace(gauges, kv_tokens=None), prompt=2000.0) + 10


def test_without_a_service_level_the_replica_where_others_have_less_is_taken() -> None:
    bench = Bench(table_of((replace(SHORT, max_concurrent=50), replicas("a", "b"))))
    (pool,) = bench.table.pools.values()
    take_gauges(pool, pool.replicas[0], EngineGauges(20, 0, 0.1, None), 0, bench.now)
    assert {bench.lease().replica.uid for _ in range(10)} == {"b"}
    take_gauges(pool, pool.replicas[0], None, 0, bench.now)
    assert bench.lease().replica.uid == "a", "nobody tells anything"


def test_a_replica_that_does_not_tell_is_taken_to_have_what_the_others_have() -> None:
    bench = Bench(table_of((replace(SHORT, max_concurrent=50), replicas("a", "b", "c"))))
    (pool,) = bench.table.pools.values()
    for number, requests in enumerate((10, 20)):
        take_gauges(pool, pool.replicas[number], EngineGauges(requests, 0, 0.1, 1000), 0, bench.now)
    silent = pool.replicas[2]
    take_gauges(pool, silent, None, 0, bench.now)
    assert (silent.gauges, silent.load.shown and silent.load.shown.requests) == (None, 15)
    assert pool.replicas[0].others_tokens < silent.others_tokens < pool.replicas[1].others_tokens


def test_a_request_of_several_answers_is_several_sequences_at_the_engine() -> None:
    bench = Bench(table_of((SHORT, replicas("a")), (LONG, ())))
    one, other = bench.lease(choices=4), bench.lease()
    assert one.replica.sequences == 5
    one.settle(Outcome.OK)
    assert other.replica.sequences == 1
    other.settle(Outcome.CLIENT_GONE)
    assert other.replica.sequences == 0
