from datetime import timedelta

import pytest
from pool_facts import NOW

from workslice_api.pool import Scaling, ScalingMemory
from workslice_operator.idle import may_sleep, remember_idle, seconds_until_sleep, wakes
from workslice_operator.observed import QueueSignal

SCALING = Scaling(mode="QueueDepth", max_replicas=3, scale_to_zero_after="60s")


def quiet(asked: int = 7) -> QueueSignal:
    return QueueSignal(0, 0, asked=asked)


def idle(seconds: float, asked: int = 7) -> ScalingMemory:
    return ScalingMemory(desired=1, asked=asked, idle_since=(NOW - timedelta(seconds=seconds)).isoformat())


def test_a_pool_is_idle_from_the_first_look_at_which_nothing_has_come() -> None:
    first = remember_idle(SCALING, ScalingMemory(), quiet(), NOW)
    assert first.idle_since is None
    assert remember_idle(SCALING, first, quiet(), NOW).idle_since == NOW.isoformat()


def test_a_time_that_an_operator_with_a_clock_ahead_has_left_counts_from_now() -> None:
    assert remember_idle(SCALING, idle(-60), quiet(), NOW).idle_since == NOW.isoformat()


def test_a_pool_that_stays_idle_has_a_memory_that_does_not_change() -> None:
    memory = idle(30)
    assert remember_idle(SCALING, memory, quiet(), NOW) is memory


@pytest.mark.parametrize(
    "signal",
    [QueueSignal(1, 0, asked=7), QueueSignal(0, 1, asked=7), quiet(8), quiet(0)],
    ids=["waits", "runs", "came and ended between two looks", "a router started anew"],
)
def test_any_request_ends_it(signal: QueueSignal) -> None:
    assert remember_idle(SCALING, idle(59), signal, NOW).idle_since is None
    assert not may_sleep(SCALING, idle(600), signal, NOW)


def test_a_pool_may_sleep_when_the_time_is_over_and_not_before() -> None:
    assert may_sleep(SCALING, idle(60), quiet(), NOW)
    assert not may_sleep(SCALING, idle(59), quiet(), NOW)
    assert seconds_until_sleep(SCALING, idle(59), NOW) == 1


def test_a_memory_of_another_count_does_not_let_a_new_operator_put_a_busy_pool_to_sleep() -> None:
    assert not may_sleep(SCALING, idle(600, asked=6), quiet(7), NOW)


def test_the_memory_of_a_pool_that_sleeps_keeps_the_count_that_a_request_must_exceed() -> None:
    asleep = ScalingMemory(asked=7, asleep=True)
    assert remember_idle(SCALING, asleep, quiet(9), NOW) is asleep
    assert remember_idle(SCALING, asleep, quiet(2), NOW).asked == 2  # a router started anew
    assert [wakes(asleep, quiet(count)) for count in (2, 7, 8)] == [False, False, True]


def test_without_the_field_nothing_is_remembered() -> None:
    memory = remember_idle(Scaling(), idle(60), quiet(), NOW)
    assert (memory.idle_since, memory.asked) == (None, None)
    assert not may_sleep(Scaling(), idle(600), quiet(), NOW)
