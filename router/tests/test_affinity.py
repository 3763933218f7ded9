"""What draws requests to a replica beside its load: the beginning of their prompt, and their session."""

from collections import Counter
from dataclasses import replace

import pytest
from routed_pools import LONG, SHORT, Bench, replicas, table_of

from workslice_router.admission import Lease
from workslice_router.ejection import Outcome
from workslice_router.prompt_prefix import Prefix, prefix_of
from workslice_router.replica_load import ServiceLevel
from workslice_router.routing_table import PoolSpec

FAST, SLOW = ServiceLevel(0.5, 0.05), ServiceLevel(12.0, 0.1)
QUICK = replace(SHORT, class_tokens=4_000, context_tokens=100_000, level=FAST, max_concurrent=64)
LARGE = replace(LONG, class_tokens=100_000, context_tokens=100_000, level=SLOW, max_concurrent=64)
PLAIN = replace(SHORT, class_tokens=100_000, context_tokens=100_000, max_concurrent=64)
TOKENS = 2000
"""Of a prompt: four characters each."""


def pools(*specs: PoolSpec, count: int = 4) -> Bench:
    listed = [(spec, replicas(*(f"{spec.class_name[0]}{n}" for n in range(count)))) for spec in specs]
    return Bench(table_of(*listed), first_answer=100)


def prefix(name: str, tokens: int = TOKENS) -> Prefix | None:
    return prefix_of("tiny", [(name * 8192)[: 3 * tokens] + str(id(object())) + "?" * tokens])


def put(bench: Bench, name: str = "", tokens: int = TOKENS, session: bytes | None = None) -> Lease:
    facts = {"prefix": prefix(name, tokens)} if name else {}
    return bench.lease(prompt_tokens=tokens, prompt_size=0, session=session, **facts)


def finish(bench: Bench, lease: Lease, seconds: float = 0.3) -> str:
    bench.now += seconds / 2
    lease.answered()
    bench.now += seconds / 2
    lease.settle(Outcome.OK)
    return lease.replica.uid


def test_prompts_that_begin_alike_go_to_one_replica_while_it_is_idle() -> None:
    bench = pools(QUICK)
    homes = {name: {finish(bench, put(bench, name)) for _ in range(5)} for name in "abcd"}
    assert all(len(home) == 1 for home in homes.values())
    assert len(set.union(*homes.values())) == 4, "what is new goes where least was sent"


def test_prompts_that_begin_alike_spread_when_waiting_would_cost_more_than_computing() -> None:
    bench = pools(QUICK)
    finish(bench, put(bench, "a"))
    crowd = Counter(put(bench, "a").replica.uid for _ in range(40))
    assert len(crowd) == 4
    assert max(crowd.values()) < 20


def test_nobody_waits_behind_a_long_prompt_for_a_beginning_that_is_quickly_computed() -> None:
    bench = pools(QUICK)
    home = put(bench, "a", tokens=700)
    home.answered()
    home.settle(Outcome.OK)
    crowd = [put(bench) for _ in range(8)]  # two on each
    for lease in crowd:
        if lease.replica.uid != home.replica.uid:
            lease.settle(Outcome.OK)
    assert put(bench, "a", tokens=700).replica.uid != home.replica.uid


def test_what_a_replica_knows_of_a_prompt_is_no_work_for_it() -> None:
    bench = pools(QUICK)
    finish(bench, put(bench, "a"))
    lease = put(bench, "a")
    assert lease.work.prompt < TOKENS / 2
    assert lease.plan.prompt_work == TOKENS, "its answer and its size are what they are"
    assert (lease.work.familiar, lease.replica.outstanding_tokens) == (True, lease.plan.work)


def test_a_guess_about_a_cache_teaches_nothing_of_the_pace() -> None:
    bench = pools(QUICK)
    finish(bench, put(bench, "a"))
    (pool,) = bench.table.pools.values()
    before = pool.pace
    finish(bench, put(bench, "a"), seconds=0.001)
    assert pool.pace is before


def test_without_a_service_level_nobody_looks_at_beginnings() -> None:
    assert not pools(PLAIN).table.has_levels
    bench = pools(QUICK)
    assert bench.table.has_levels
    bench.table.put_pool(PLAIN)
    bench.table.commit()
    assert not bench.table.has_levels


@pytest.mark.parametrize("spec", [QUICK, PLAIN], ids=["with a service level", "without"])
def test_a_session_stays_on_its_replica_while_others_are_idle(spec: PoolSpec) -> None:
    bench = pools(spec)
    for name in (b"one", b"two", b"three"):
        assert len({finish(bench, put(bench, session=name)) for _ in range(8)}) == 1


@pytest.mark.parametrize("spec", [QUICK, PLAIN], ids=["with a service level", "without"])
def test_routers_choose_the_same_first_replica_for_a_session(spec: PoolSpec) -> None:
    one, other = pools(spec), pools(spec)
    put(other, tokens=500).answered()
    names = [b"session %d" % number for number in range(20)]
    homes = [[finish(bench, put(bench, session=name)) for name in names] for bench in (one, other)]
    assert homes[0] == homes[1]


@pytest.mark.parametrize("spec", [QUICK, PLAIN], ids=["with a service level", "without"])
def test_a_session_leaves_a_replica_that_is_much_busier_than_another(spec: PoolSpec) -> None:
    bench = pools(spec)
    home = finish(bench, put(bench, session=b"s"))
    crowd = [put(bench, tokens=20_000) for _ in range(8)]
    for lease in crowd:
        if lease.replica.uid != home:
            lease.settle(Outcome.OK)
    assert put(bench, session=b"s").replica.uid != home


def test_a_session_follows_its_last_replica_not_its_first() -> None:
    bench = pools(PLAIN)
    home = finish(bench, put(bench, session=b"s"))
    moved = bench.lease(session=b"s", excluded=[home])
    finish(bench, moved)
    assert finish(bench, put(bench, session=b"s")) == moved.replica.uid != home


def test_a_session_of_a_class_with_several_pools_always_draws_the_same() -> None:
    canary = replace(PLAIN, key="serving/canary", weight=50)
    bench = Bench(table_of((replace(PLAIN, weight=50), replicas("a", "b")), (canary, replicas("c", "d"))))
    drawn = []
    for name in range(40):
        seen = set()
        for chance in (0.0, 0.4, 0.9):
            bench.random = chance
            seen.add(finish(bench, bench.lease(session=b"%d" % name)))
        assert len(seen) == 1
        drawn += seen
    assert set(drawn) == {"a", "b", "c", "d"}


def test_a_request_that_waited_goes_to_its_sessions_replica_when_that_is_free() -> None:
    bench = Bench(table_of((replace(PLAIN, max_concurrent=1), replicas("a", "b"))))
    home = finish(bench, put(bench, session=b"s"))
    first, second = bench.lease(), bench.lease()
    asker, _ = bench.wait(session=b"s")
    (pool,) = bench.table.pools.values()
    for lease in (first, second):  # both places come free before anybody is served
        bench.admission._pumping = lease is first
        lease.settle(Outcome.OK)
    assert [lease.replica.uid for lease in asker.leases] == [home]
    assert pool.running == 1
