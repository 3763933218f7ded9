"""The document that the operator scales on."""

from dataclasses import replace

from routed_pools import LONG, SHORT, Bench, replicas, table_of

from workslice_api.state import EngineLoadState, RouterState
from workslice_router.ejection import Outcome
from workslice_router.engine_gauges import EngineGauges
from workslice_router.replica_gauges import take_gauges
from workslice_router.state_document import POOLS_PER_STEP, StateDocument


def read(document: StateDocument, now: float) -> RouterState:
    for _ in document.refresh(now):
        pass
    return RouterState.model_validate_json(document.render())


def test_is_a_router_state_of_every_pool() -> None:
    bench = Bench(table_of((SHORT, replicas("a")), (LONG, ())))
    document = StateDocument(bench.table, "router-1")
    for _ in range(2):
        bench.lease()
    bench.wait()
    bench.now += 1.5
    state = read(document, bench.now)
    assert (state.version, state.router, state.synced) == (1, "router-1", True)
    short = state.pools["serving/short"]
    assert (short.queued, short.running, short.queued_tokens, short.oldest_wait_seconds) == (1, 2, 200, 1.5)
    (replica,) = short.replicas
    assert (replica.uid, replica.address, replica.in_flight, replica.outstanding_tokens) == (
        "a",
        "10.0.0.1:8000",
        2,
        400,
    )
    assert state.pools["serving/long"].replicas == ()


def test_carries_every_field_of_the_model_under_its_wire_name() -> None:
    bench = Bench(table_of((SHORT, replicas("a"))))
    document = StateDocument(bench.table, "r")
    state = read(document, bench.now)
    assert document.render() == state.model_dump_json(by_alias=True).encode()


def test_follows_every_change() -> None:
    bench = Bench(table_of((SHORT, replicas("a"))))
    document = StateDocument(bench.table, "r")
    read(document, bench.now)
    lease = bench.lease()
    assert read(document, bench.now).pools["serving/short"].running == 1
    lease.settle(Outcome.CONNECT_FAILED)
    pool = read(document, bench.now).pools["serving/short"]
    assert (pool.running, pool.replicas[0].ejected) == (0, True)
    bench.table.put_replicas("serving/short", replicas("a", draining=True))
    bench.table.commit()
    assert read(document, bench.now).pools["serving/short"].replicas[0].draining
    bench.table.remove_pool("serving/short")
    bench.table.commit()
    assert read(document, bench.now).pools == {}


def test_a_replica_that_left_shows_as_draining_until_its_requests_end() -> None:
    bench = Bench(table_of((SHORT, replicas("a"))))
    document = StateDocument(bench.table, "r")
    lease = bench.lease()
    bench.table.put_replicas("serving/short", ())
    bench.table.commit()
    (replica,) = read(document, bench.now).pools["serving/short"].replicas
    assert (replica.draining, replica.in_flight) == (True, 1)
    lease.settle(Outcome.OK)
    assert read(document, bench.now).pools["serving/short"].replicas == ()


def test_a_thousand_changed_pools_are_renewed_in_small_steps_and_once() -> None:
    pools = [(replace(SHORT, key=f"serving/p{number}", model=f"m{number}"), replicas("a")) for number in range(1000)]
    table = table_of(*pools)
    document = StateDocument(table, "r")
    assert sum(1 for _ in document.refresh(0.0)) == 1000 // POOLS_PER_STEP
    assert sum(1 for _ in document.refresh(0.0)) == 0
    assert len(RouterState.model_validate_json(document.render()).pools) == 1000


def test_what_happens_while_pools_are_renewed_shows_as_a_whole_in_the_next_document() -> None:
    others = [(replace(SHORT, key=f"serving/p{number}", model=f"m{number}"), ()) for number in range(POOLS_PER_STEP)]
    bench = Bench(table_of((replace(SHORT, desired_replicas=1, asleep=True), ()), *others))
    bench.table.synced = False
    document = StateDocument(bench.table, "r")
    steps = document.refresh(bench.now)
    next(steps)
    bench.ask()
    bench.table.put_pool(LONG)
    bench.table.commit()
    bench.table.synced = True
    for _ in steps:
        pass
    state = RouterState.model_validate_json(document.render())
    assert (state.asked_in_vain, state.synced, "serving/long" in state.pools) == (0, False, False)
    state = read(document, bench.now)
    assert (state.asked_in_vain, state.pools["serving/short"].queued) == (1, 1)
    assert (state.synced, "serving/long" in state.pools) == (True, True)


def test_shows_what_engines_last_said_of_their_load_and_nothing_while_that_is_unknown() -> None:
    bench = Bench(table_of((SHORT, replicas("a"))))
    (pool,) = bench.table.pools.values()
    document = StateDocument(bench.table, "r")
    assert read(document, bench.now).pools["serving/short"].replicas[0].engine is None
    for gauges in (EngineGauges(3, 1, 0.25, 32_000), None):
        take_gauges(pool, pool.replicas[0], gauges, 0, bench.now)
        bench.admission.places_changed(pool)
        (shown,) = read(document, bench.now).pools["serving/short"].replicas
        assert shown.kv_tokens == 32_000
        assert shown.engine == (gauges and EngineLoadState(running=3, waiting=1, kv_cache_usage=0.25))
