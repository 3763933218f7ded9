from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pool_facts import NOW, make_pod, make_pool, ready_pod, unplaced_pod

from workslice_api.names import Reason
from workslice_api.pool import LowerDemand, ScalingMemory, WorkspacePoolSpec
from workslice_operator.observed import QueueSignal
from workslice_operator.scaling import ReplicaCounts, count_replicas, decide
from workslice_operator.wanted_replicas import wanted_replicas


def spec(**scaling: Any) -> WorkspacePoolSpec:
    base = {"mode": "QueueDepth", "minReplicas": 1, "maxReplicas": 6, "targetPerReplica": 8, "scaleDownWindow": "60s"}
    return make_pool(scaling=base | scaling).spec


def lower_since(seconds: float, desired: int, highest: int) -> ScalingMemory:
    return ScalingMemory(desired=desired, lower=[line(seconds, highest)])


def line(seconds_ago: float, replicas: int) -> LowerDemand:
    return LowerDemand(since=(NOW - timedelta(seconds=seconds_ago)).isoformat(), replicas=replicas)


def test_mode_fixed_follows_spec_replicas_whatever_demand_is() -> None:
    decision = decide(make_pool(replicas=0).spec, ScalingMemory(desired=4), ReplicaCounts(4), QueueSignal(90, 9), NOW)
    assert (decision.desired, decision.reason, decision.memory.desired) == (0, Reason.FIXED, 0)


def test_mode_external_follows_spec_replicas_and_says_so() -> None:
    external = make_pool(replicas=3, scaling={"mode": "External"}).spec
    decision = decide(external, ScalingMemory(desired=4), ReplicaCounts(4), QueueSignal(90, 9), NOW)
    assert (decision.desired, decision.reason) == (3, Reason.EXTERNAL)
    assert decision.memory == ScalingMemory(desired=3)


@pytest.mark.parametrize(
    ("queued", "running", "expected"),
    [(0, 0, 1), (0, 8, 1), (1, 8, 2), (16, 0, 2), (17, 0, 3), (30, 18, 6)],
    ids=["idle", "one full", "one waits", "all wait", "rounded up", "just the maximum"],
)
def test_replicas_follow_what_is_queued_plus_what_runs(queued: int, running: int, expected: int) -> None:
    decision = decide(spec(), ScalingMemory(desired=1), ReplicaCounts(1), QueueSignal(queued, running), NOW)
    assert decision.desired == expected


def test_a_pool_grows_at_once() -> None:
    decision = decide(spec(), lower_since(30, 2, 1), ReplicaCounts(2), QueueSignal(40, 0), NOW)
    assert (decision.desired, decision.reason) == (5, Reason.SCALED_UP)
    assert decision.memory == ScalingMemory(desired=5)


def test_demand_above_the_maximum_is_named() -> None:
    decision = decide(spec(), ScalingMemory(desired=6), ReplicaCounts(6), QueueSignal(500, 48), NOW)
    assert (decision.desired, decision.reason) == (6, Reason.LIMITED_BY_MAXIMUM)
    assert "scaling.maxReplicas (6)" in decision.message


def test_lower_demand_first_opens_a_window() -> None:
    decision = decide(spec(), ScalingMemory(desired=4), ReplicaCounts(4), QueueSignal(0, 9), NOW)
    assert (decision.desired, decision.reason) == (4, Reason.SCALE_DOWN_DELAYED)
    assert decision.memory == lower_since(0, 4, 2)


def test_after_the_window_the_pool_shrinks_to_the_most_that_was_wanted_in_it() -> None:
    decision = decide(spec(), lower_since(60, 5, 3), ReplicaCounts(5), QueueSignal(0, 1), NOW)
    assert (decision.desired, decision.reason) == (3, Reason.SCALED_DOWN)
    assert decision.memory == lower_since(0, 3, 1)


def test_demand_that_comes_back_within_the_window_keeps_the_replicas() -> None:
    decision = decide(spec(), lower_since(50, 2, 1), ReplicaCounts(2), QueueSignal(1, 8), NOW)
    assert decision.memory == ScalingMemory(desired=2)


def test_the_window_survives_a_restart_of_the_operator() -> None:
    stored = ScalingMemory.model_validate(lower_since(61, 2, 1).to_wire())
    assert decide(spec(), stored, ReplicaCounts(2), QueueSignal(0, 0), NOW).desired == 1


def test_unknown_demand_holds_the_pool_and_its_window() -> None:
    memory = lower_since(600, 4, 1)
    decision = decide(spec(), memory, ReplicaCounts(4), None, NOW)
    assert (decision.desired, decision.reason, decision.memory) == (4, Reason.SIGNAL_UNKNOWN, memory)


def test_unknown_demand_starts_a_new_pool_at_its_minimum() -> None:
    assert decide(spec(minReplicas=2), ScalingMemory(), ReplicaCounts(None), None, NOW).desired == 2


def test_a_pool_that_was_fixed_keeps_its_replicas_when_its_mode_changes() -> None:
    assert decide(spec(), ScalingMemory(desired=3), ReplicaCounts(3), None, NOW).desired == 3


def test_no_replica_goes_while_another_starts() -> None:
    decision = decide(spec(), lower_since(90, 3, 1), ReplicaCounts(3, starting=1), QueueSignal(0, 0), NOW)
    assert (decision.desired, decision.reason) == (3, Reason.HELD_WHILE_STARTING)


def test_replicas_without_a_place_go_even_while_another_starts() -> None:
    decision = decide(spec(), lower_since(90, 4, 1), ReplicaCounts(4, starting=1, unplaced=2), QueueSignal(0, 0), NOW)
    assert (decision.desired, decision.reason) == (2, Reason.SCALED_DOWN)


def test_a_lowered_maximum_takes_effect_at_once() -> None:
    decision = decide(spec(maxReplicas=2), ScalingMemory(desired=5), ReplicaCounts(5, starting=2), None, NOW)
    assert decision.desired == 2


def test_a_window_from_before_a_lowered_maximum_begins_anew() -> None:
    decision = decide(spec(maxReplicas=3), lower_since(90, 5, 4), ReplicaCounts(5), QueueSignal(0, 0), NOW)
    assert (decision.desired, decision.memory.lower) == (3, [line(0, 1)])


def test_messages_hold_no_number_of_requests_since_that_would_rewrite_the_status_all_the_time() -> None:
    messages = {
        decide(spec(), ScalingMemory(desired=2), ReplicaCounts(2), QueueSignal(depth, 0), NOW).message
        for depth in range(9, 17)
    }
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("pod", "starting", "unplaced"),
    [
        (make_pod(age=10), 1, 0),
        (make_pod(age=700), 0, 0),
        (ready_pod(age=10), 0, 0),
        (unplaced_pod("a", "0/1 nodes are available"), 0, 1),
        (make_pod(age=10, deleting=True), 0, 0),
        (make_pod(age=10, phase="Failed"), 0, 0),
    ],
    ids=["starting", "too late", "ready", "without a place", "going", "failed"],
)
def test_only_placed_pods_within_their_timeout_count_as_starting(pod: Any, starting: int, unplaced: int) -> None:
    counts = count_replicas([pod], 1, 600, NOW)
    assert (counts.starting, counts.unplaced) == (starting, unplaced)


def test_ready_replicas_are_those_that_carry_the_depth() -> None:
    pods = [ready_pod("a"), make_pod("b"), ready_pod("c", deleting=True)]
    assert count_replicas(pods, 3, 600, NOW).carrying == 1


SIGNALS = st.one_of(st.none(), st.builds(QueueSignal, st.integers(0, 200), st.integers(0, 200)))
STEPS = st.lists(st.tuples(st.floats(0.5, 120), SIGNALS, st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


@given(minimum=st.integers(1, 5), above=st.integers(0, 8), start=st.integers(0, 20), steps=STEPS)
def test_no_course_of_demand_leads_outside_the_bounds_or_lowers_the_pool_without_knowing(
    minimum: int, above: int, start: int, steps: list[tuple[float, QueueSignal | None, int, int]]
) -> None:
    policy = spec(minReplicas=minimum, maxReplicas=minimum + above)
    memory, now = ScalingMemory(desired=start), NOW
    for seconds, signal, starting, unplaced in steps:
        now += timedelta(seconds=seconds)
        before = memory.desired
        decision = decide(policy, memory, ReplicaCounts(before, starting, unplaced), signal, now)
        memory = decision.memory
        assert minimum <= decision.desired <= minimum + above
        assert memory.desired == decision.desired
        if signal is None:
            assert decision.desired >= min(before, minimum + above)
        if starting and before <= minimum + above:
            assert decision.desired >= before - unplaced


def test_one_request_at_a_time_holds_no_second_replica() -> None:
    for target in (2, 3, 8):
        scaling = spec(targetPerReplica=target).scaling
        assert wanted_replicas(scaling, depth_milli=1000, queued=0, ready=2, present=2) == 1


@pytest.mark.parametrize(("present", "wanted"), [(3, 3), (2, 2), (1, 2)])
def test_a_size_that_chance_would_soon_bring_back_is_kept(present: int, wanted: int) -> None:
    """Fifteen requests are worth two replicas, and three with the two that come by chance."""
    scaling = spec(targetPerReplica=8).scaling
    assert wanted_replicas(scaling, depth_milli=15_000, queued=0, ready=2, present=present) == wanted


@given(depth=st.integers(0, 100), start=st.integers(1, 6))
def test_constant_demand_ends_at_one_size_and_stays_there(depth: int, start: int) -> None:
    memory, sizes = ScalingMemory(desired=start), []
    for step in range(40):
        now = NOW + timedelta(seconds=10 * step)
        decision = decide(spec(), memory, ReplicaCounts(memory.desired), QueueSignal(depth, 0), now)
        memory = decision.memory
        sizes.append(decision.desired)
    assert set(sizes[20:]) == {min(max(-(-depth // 8), 1), 6)}


@given(depths=st.lists(st.integers(0, 60), min_size=2, max_size=25))
def test_a_pool_never_shrinks_below_what_was_wanted_within_the_window(depths: list[int]) -> None:
    memory, wanted = ScalingMemory(desired=1), []
    for step, depth in enumerate(depths):
        now = NOW + timedelta(seconds=10 * step)
        decision = decide(spec(), memory, ReplicaCounts(memory.desired), QueueSignal(depth, 0), now)
        wanted.append(min(max(-(-depth // 8), 1), 6))
        # Window of 60 s at one look every 10 s: the six looks before this one and this one.
        if decision.desired < memory.desired:
            assert decision.desired >= max(wanted[-7:])
        memory = decision.memory


@pytest.mark.parametrize(
    ("depth", "desired", "said"),
    [
        (8, 3, "with scaling.headroom 2"),
        (33, 6, "with scaling.headroom 2, of which scaling.maxReplicas leaves 1"),
        (48, 6, "with scaling.headroom 2, of which scaling.maxReplicas leaves 0"),
    ],
)
def test_headroom_is_kept_above_demand_as_far_as_the_maximum_allows(depth: int, desired: int, said: str) -> None:
    decision = decide(spec(headroom=2), ScalingMemory(desired=1), ReplicaCounts(1), QueueSignal(depth, 0), NOW)
    assert decision.desired == desired
    assert decision.message.endswith(said)


def test_a_minimum_above_demand_and_headroom_does_not_speak_of_headroom() -> None:
    decision = decide(spec(headroom=1, minReplicas=4), ScalingMemory(), ReplicaCounts(4), QueueSignal(0, 0), NOW)
    assert (decision.desired, decision.message) == (4, "queue depth asks for 4 replicas")
