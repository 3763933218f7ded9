"""What first tokens teach about the pace of a pool's engines, and what they do not."""

from dataclasses import replace

import pytest
from routed_pools import LONG, SHORT, Bench, replicas, table_of

from workslice_router.ejection import Outcome
from workslice_router.learned_pace import faded_pace, learned_pace
from workslice_router.replica_load import EnginePace, ReplicaLoad, ServiceLevel, Work

PACE = EnginePace(1000.0, 100, 4)
LEVEL = ServiceLevel(0.5, 0.05)
GUESS = EnginePace(28_000.0, 512, 4)
QUICK = replace(SHORT, context_tokens=100_000, level=LEVEL, max_concurrent=64, first_pace=GUESS)
LARGE = replace(
    LONG,
    class_tokens=100_000,
    context_tokens=100_000,
    level=ServiceLevel(12.0, 0.1),
    max_concurrent=64,
    first_pace=GUESS,
)


def work(prompt: float) -> Work:
    return Work(prompt, 10.0, LEVEL)


def learned(first_guess: float, true_pace: float, first_tokens: int = 200) -> float:
    first = pace = replace(PACE, tokens_per_second=first_guess)
    load, now = ReplicaLoad(), 0.0
    for _ in range(first_tokens):
        one = work(1000)
        load.add(one, now, pace)
        now += one.ahead / true_pace
        load.answered(one)
        pace = learned_pace(pace, first, load, one, now)
        load.remove(one)
        now += 0.1
    return pace.tokens_per_second


@pytest.mark.parametrize("first_guess", [1000.0, 8000.0, 64_000.0])
def test_the_pace_is_learned_from_first_tokens_however_wrong_the_guess(first_guess: float) -> None:
    assert learned(first_guess, 8000.0) == pytest.approx(8000.0, rel=0.2)


def test_short_prompts_teach_nothing() -> None:
    one = work(100)
    assert learned_pace(PACE, PACE, ReplicaLoad(), one, one.sent + 60) is PACE


def stands_still(bench: Bench, seconds: float, *, noticed: bool) -> None:
    """A replica answers none of the requests that it takes for so long, and then all of them."""
    leases = [bench.lease(prompt_tokens=500, prompt_size=0, requested_class="short") for _ in range(64)]
    bench.now += seconds
    if noticed:
        bench.admission.hold_back(leases[0].pool, leases[0].replica)
    for lease in leases:
        bench.now += 0.01
        lease.answered()
        lease.settle(Outcome.OK)


def bench() -> Bench:
    return Bench(table_of((QUICK, replicas("s0")), (LARGE, replicas("l0"))), first_answer=100)


@pytest.mark.parametrize("seconds", [4.0, 60.0])
def test_all_that_waited_while_a_replica_stood_still_show_it_once(seconds: float) -> None:
    still = bench()
    stands_still(still, seconds, noticed=False)
    assert still.table.pools[QUICK.key].pace.tokens_per_second > 0.95 * GUESS.tokens_per_second


def test_what_waits_on_a_replica_that_is_known_to_hang_teaches_nothing() -> None:
    hung = bench()
    stands_still(hung, 60.0, noticed=True)
    assert hung.table.pools[QUICK.key].pace is GUESS


def test_a_replica_that_hung_teaches_again_afterwards() -> None:
    hung = bench()
    stands_still(hung, 60.0, noticed=True)
    pool = hung.table.pools[QUICK.key]
    hung.admission.well_again(pool, pool.replicas[0])
    lease = hung.lease(prompt_tokens=500, prompt_size=0)
    hung.now += 0.1
    lease.answered()
    assert pool.pace.tokens_per_second < GUESS.tokens_per_second


def test_a_pool_that_looked_slow_gets_requests_again_some_minutes_later() -> None:
    slow = bench()
    slow.table.pools[QUICK.key].pace = replace(GUESS, tokens_per_second=GUESS.tokens_per_second / 25, learned=slow.now)

    def place() -> str:
        lease = slow.lease(prompt_tokens=500, prompt_size=0)
        lease.settle(Outcome.OK)
        return lease.replica.uid

    assert place() == "l0"
    for _ in range(1800):
        slow.now += 0.1
        slow.admission.tick()
    assert place() == "s0"


def test_a_pace_is_forgotten_only_when_no_first_token_has_shown_it_for_a_while() -> None:
    shown = replace(PACE, tokens_per_second=100.0, learned=1000.0)
    assert faded_pace(shown, PACE, 1020.0) is shown
    assert faded_pace(shown, PACE, 1000.0 + 3600) is PACE


def test_a_pace_is_forgotten_as_fast_however_often_one_looks() -> None:
    once = often = replace(PACE, tokens_per_second=100.0, learned=1000.0)
    for tenth in range(601):
        often = faded_pace(often, PACE, 1000.0 + tenth / 10)
    once = faded_pace(once, PACE, 1060.0)
    assert once.tokens_per_second == pytest.approx(often.tokens_per_second)
    assert once.tokens_per_second == pytest.approx(10**0.5 * 100), "half of it, as a ratio"
