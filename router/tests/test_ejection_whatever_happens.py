"""The breaker of one replica under any order of requests, endings, questions for its health and time."""

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from workslice_router.ejection import (
    BUSY_REST,
    DRAINING_REST,
    ERRORS_IN_A_ROW,
    HEALTHY,
    HELD_BACK_SECONDS,
    LONGEST_REST,
    MOST_EJECTIONS,
    PROBE_INTERVAL,
    Health,
    Outcome,
    available,
    held_back,
    hopeful,
    sent,
    settled,
)

BLAMELESS = (
    Outcome.OK,
    Outcome.TOO_LONG,
    Outcome.CLIENT_GONE,
    Outcome.ROUTER_FAULT,
    Outcome.TOO_SLOW,
    Outcome.BUSY,
    Outcome.DRAINING,
    Outcome.ABORTED,
)
"""Endings that never eject: the request was wrong, the client left, or the engine only has no place now."""
GONE = (Outcome.CONNECT_FAILED, Outcome.RESET, Outcome.CORE_DIED)


@dataclass(eq=False)
class Request:
    probe: bool


class Breaking(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.health: Health = HEALTHY
        self.now = 100.0
        self.running: list[Request] = []
        self.blamed = False
        """Something has spoken against the replica since it was last well."""
        self.last_probe = float("-inf")

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.4, 1.0, 3.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: available(self.health, self.now))
    @rule()
    def send(self) -> None:
        probe = self.health.ejected
        if probe:
            assert self.now - self.last_probe >= PROBE_INTERVAL, "two probes at once"
            self.last_probe = self.now
        self.health = sent(self.health, self.now)
        self.running.append(Request(probe))

    @precondition(lambda self: self.running)
    @rule(outcome=st.sampled_from(Outcome), which=st.integers(0, 100))
    def end(self, outcome: Outcome, which: int) -> None:
        request = self.running.pop(which % len(self.running))
        before = self.health
        self.health = settled(before, outcome, self.now, request.probe)
        if before.ejected and not request.probe:
            assert self.health is before, "news from before the ejection"
        elif outcome in BLAMELESS:
            assert self.health.ejected <= before.ejected
            if before.ejected and outcome in (Outcome.OK, Outcome.TOO_LONG):
                assert self.health is HEALTHY, "a probe that was answered"
        else:
            self.blamed = True
            assert self.health.errors == before.errors + 1
            assert self.health.ejected == (before.ejected or outcome in GONE or self.health.errors >= ERRORS_IN_A_ROW)
            if self.health.ejected:
                assert not available(self.health, self.now)
        self.forget_blame()

    @rule()
    def it_does_not_say_that_it_lives(self) -> None:
        self.health = held_back(self.health, self.now)
        self.blamed = True
        assert not available(self.health, self.now + HELD_BACK_SECONDS - 0.01)

    @rule()
    def it_is_well_again(self) -> None:
        self.health = HEALTHY
        self.forget_blame()

    def forget_blame(self) -> None:
        if self.health is HEALTHY:
            self.blamed, self.last_probe = False, float("-inf")

    @invariant()
    def nobody_is_ejected_who_was_never_blamed(self) -> None:
        assert self.blamed or not self.health.ejected

    @invariant()
    def every_rest_ends(self) -> None:
        longest = LONGEST_REST if self.health.ejected else max(BUSY_REST, DRAINING_REST)
        assert available(self.health, self.now + longest)

    @invariant()
    def the_counts_are_in_their_bounds(self) -> None:
        health = self.health
        assert 0 <= health.ejections <= MOST_EJECTIONS
        assert health.ejected == (health.ejections > 0)
        assert health.ejected or health.errors < ERRORS_IN_A_ROW
        assert hopeful(health) or health.ejected


TestBreaker = Breaking.TestCase
TestBreaker.settings = settings(max_examples=80, stateful_step_count=40)
