"""Passive ejection of replicas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_router.ejection import (
    BUSY_REST,
    DRAINING_REST,
    FIRST_REST,
    HEALTHY,
    LONGEST_REST,
    PROBE_INTERVAL,
    Health,
    Outcome,
    available,
    hopeful,
    sent,
    settled,
)


def fail(health: Health, now: float, outcome: Outcome = Outcome.CONNECT_FAILED) -> Health:
    """A request goes there and fails."""
    probe = health.ejected
    return settled(sent(health, now), outcome, now, probe)


@pytest.mark.parametrize("outcome", [Outcome.CONNECT_FAILED, Outcome.RESET, Outcome.CORE_DIED])
def test_a_replica_that_is_gone_gets_a_rest_at_once(outcome: Outcome) -> None:
    health = fail(HEALTHY, 100.0, outcome)
    assert health.ejected
    assert not available(health, 100.0 + FIRST_REST - 0.01)
    assert available(health, 100.0 + FIRST_REST)


def test_engine_errors_eject_only_several_in_a_row() -> None:
    health = fail(fail(HEALTHY, 1.0, Outcome.ENGINE_ERROR), 2.0, Outcome.ENGINE_ERROR)
    assert available(health, 2.0)
    assert settled(health, Outcome.OK, 2.5, False) is HEALTHY
    assert fail(health, 3.0, Outcome.TIMEOUT).ejected


def test_an_answer_that_blames_the_client_never_ejects() -> None:
    health = HEALTHY
    for now in range(100):
        health = settled(sent(health, float(now)), Outcome.OK, float(now), False)
    assert health is HEALTHY


def test_probes_go_one_in_a_while_after_the_rest_until_one_is_answered() -> None:
    probing = sent(fail(HEALTHY, 0.0), 5.0)
    assert not available(probing, 5.0 + PROBE_INTERVAL - 0.01)
    assert available(probing, 5.0 + PROBE_INTERVAL)
    assert settled(probing, Outcome.OK, 5.5, True) is HEALTHY


@pytest.mark.parametrize("outcome", [Outcome.CLIENT_GONE, Outcome.ROUTER_FAULT])
def test_what_is_not_the_replicas_doing_says_nothing_of_it(outcome: Outcome) -> None:
    probing = sent(fail(HEALTHY, 0.0), 5.0)
    assert settled(probing, outcome, 5.5, True) == probing
    assert settled(HEALTHY, outcome, 5.5, False) is HEALTHY


def test_rests_double_up_to_a_bound_so_nobody_is_ejected_for_ever() -> None:
    health, now, rests = HEALTHY, 0.0, []
    for _ in range(12):
        health = fail(health, now)
        rests.append(health.rest_until - now)
        now = health.rest_until
        assert available(health, now)
    assert rests[:5] == [1, 2, 4, 8, 16]
    assert max(rests) == LONGEST_REST


def test_requests_that_were_running_when_it_failed_count_once() -> None:
    once = fail(HEALTHY, 0.0)
    assert settled(once, Outcome.RESET, 0.1, False) == once
    assert settled(once, Outcome.OK, 0.1, False) == once


@pytest.mark.parametrize(("outcome", "rest"), [(Outcome.BUSY, BUSY_REST), (Outcome.DRAINING, DRAINING_REST)])
def test_a_full_or_draining_engine_pauses_without_being_ejected(outcome: Outcome, rest: float) -> None:
    health = settled(HEALTHY, outcome, 100.0, False)
    assert not health.ejected
    assert not available(health, 100.0 + rest - 0.01)
    assert available(health, 100.0 + rest)


def test_what_a_draining_engine_still_finishes_does_not_end_its_pause() -> None:
    health = settled(settled(HEALTHY, Outcome.DRAINING, 100.0, False), Outcome.OK, 101.0, False)
    assert not available(health, 101.0)


def test_hope_ends_when_a_replica_has_failed_for_some_seconds() -> None:
    health, now = HEALTHY, 0.0
    for _ in range(3):
        health = fail(health, now)
        assert hopeful(health)
        now = health.rest_until
    assert not hopeful(fail(health, now))


@given(st.lists(st.tuples(st.sampled_from(Outcome), st.floats(0, 50)), max_size=60))
def test_whatever_happens_it_is_available_again_within_the_longest_rest(history: list[tuple[Outcome, float]]) -> None:
    health, now = HEALTHY, 0.0
    for outcome, step in history:
        now += step
        if available(health, now):
            probe = health.ejected
            health = settled(sent(health, now), outcome, now, probe)
    assert available(health, now + LONGEST_REST)
