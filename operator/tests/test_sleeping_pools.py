from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pool_facts import INSTALLATION, NOW, make_deployment, make_observed, make_pool, ready_pod

from workslice_api.conditions import find_condition
from workslice_api.names import Reason
from workslice_api.pool import ScalingMemory
from workslice_operator.idle import remember_idle
from workslice_operator.observed import QueueSignal
from workslice_operator.plan import plan
from workslice_operator.scaling import Decision, ReplicaCounts, decide
from workslice_operator.scheduled_minimum import scheduled_minimum
from workslice_operator.weighed_depth import remember

SPEC = make_pool(
    scaling={"mode": "QueueDepth", "minReplicas": 2, "maxReplicas": 6, "headroom": 1, "scaleToZeroAfter": "30m"}
).spec
ASLEEP = ScalingMemory(desired=0, asleep=True, asked=5)
NOBODY = QueueSignal(0, 0, asked=5)


def idle(minutes: float) -> ScalingMemory:
    since = (NOW - timedelta(minutes=minutes)).isoformat()
    return ScalingMemory(desired=3, asked=5, idle_since=since)


def decided(memory: ScalingMemory, counts: ReplicaCounts, signal: QueueSignal | None = NOBODY) -> Decision:
    return decide(SPEC, memory, counts, signal, NOW)


def test_a_pool_without_requests_goes_to_zero_whatever_its_minimum_and_headroom_are() -> None:
    decision = decided(idle(30), ReplicaCounts(3, ready=3))
    assert (decision.desired, decision.reason, decision.memory.asleep) == (0, Reason.SCALED_TO_ZERO, True)


def test_not_a_moment_sooner() -> None:
    assert decided(idle(29.9), ReplicaCounts(3, ready=3)).desired == 3


@pytest.mark.parametrize("counts", [ReplicaCounts(3, ready=0), ReplicaCounts(3, starting=1, ready=2)])
def test_a_pool_whose_replicas_do_not_come_up_or_start_stays(counts: ReplicaCounts) -> None:
    assert decided(idle(90), counts).desired == 3


def test_unknown_demand_puts_no_pool_to_sleep_and_wakes_none() -> None:
    assert decided(idle(90), ReplicaCounts(3, ready=3), None).desired == 3
    assert decided(ASLEEP, ReplicaCounts(0, ready=0), None).desired == 0


def test_a_pool_sleeps_on_while_nobody_asks() -> None:
    assert decided(ASLEEP, ReplicaCounts(0, ready=0)) == decided(ASLEEP, ReplicaCounts(0, ready=0))
    assert decided(ASLEEP, ReplicaCounts(0, ready=0)).desired == 0


def test_one_request_wakes_it_to_its_minimum() -> None:
    decision = decided(ASLEEP, ReplicaCounts(0, ready=0), QueueSignal(1, 0, asked=5))
    assert (decision.desired, decision.reason, decision.memory.asleep) == (2, Reason.SCALED_UP, False)


def test_a_request_that_another_pool_serves_meanwhile_wakes_it_too() -> None:
    assert decided(ASLEEP, ReplicaCounts(0, ready=0), QueueSignal(0, 0, asked=6)).desired == 2


def test_many_requests_wake_it_to_what_they_need() -> None:
    assert decided(ASLEEP, ReplicaCounts(0, ready=0), QueueSignal(39, 0, asked=5)).desired == 5


def test_a_new_pool_is_not_asleep() -> None:
    assert decided(ScalingMemory(), ReplicaCounts(None, ready=0)).desired == 2


def test_a_pool_wakes_when_its_owner_takes_the_field_away() -> None:
    spec = make_pool(scaling={"mode": "QueueDepth", "maxReplicas": 6}).spec
    assert decide(spec, ASLEEP, ReplicaCounts(0, ready=0), NOBODY, NOW).desired == 1


def test_a_pool_that_sleeps_is_ready_and_says_how_it_wakes() -> None:
    scaling = {"mode": "QueueDepth", "maxReplicas": 2, "scaleToZeroAfter": "30m"}
    pool = make_pool(status={"scaling": ASLEEP.to_wire()}, scaling=scaling)
    status = plan(make_observed(pool, deployment=make_deployment(0), signal=NOBODY), INSTALLATION, NOW).status
    engines, ready = (find_condition(status.conditions, one) for one in ("EnginesReady", "Ready"))
    assert engines is not None
    assert ready is not None
    assert (ready.status, engines.reason) == ("True", "ScaledToZero")
    assert engines.message == "no request for 30m; the next one wakes the pool"


def test_the_moment_at_which_it_may_sleep_is_looked_at_in_time() -> None:
    scaling = {"mode": "QueueDepth", "maxReplicas": 2, "scaleToZeroAfter": "30m"}
    memory = idle(29.5).model_copy(update={"desired": 1})
    pool = make_pool(status={"scaling": memory.to_wire()}, scaling=scaling)
    pods = (ready_pod(),)
    observed = make_observed(pool, deployment=make_deployment(1), pods=pods, signal=NOBODY)
    assert plan(observed, INSTALLATION, NOW).requeue_after == 30


SCHEDULE = [{"start": "11:00", "end": "12:10", "minReplicas": 3}]
QUIET = st.just((0, 0))
DEMAND = st.one_of(QUIET, QUIET, QUIET, QUIET, st.none(), st.tuples(st.integers(0, 20), st.integers(0, 3)))
MOSTLY = [True, True, True, False]
LOOK = st.tuples(st.sampled_from([2, 600, 900]), DEMAND, st.sampled_from(MOSTLY), st.sampled_from(MOSTLY))


@given(
    looks=st.lists(LOOK, min_size=10, max_size=40),
    headroom=st.integers(0, 2),
    scheduled=st.booleans(),
    restart=st.integers(0, 40),
)
@example(  # waits, and gives up before a replica could take it
    looks=[(2, (0, 0), True, True), *[(900, (0, 0), True, True)] * 3, (2, (1, 0), True, True), (2, (0, 0), True, True)],
    headroom=0,
    scheduled=False,
    restart=0,
)
def test_no_course_of_demand_puts_a_pool_to_sleep_against_its_rules_or_lets_a_request_sleep(
    looks: list[tuple[int, tuple[int, int] | None, bool, bool]], headroom: int, scheduled: bool, restart: int
) -> None:
    """Each look: seconds since the one before, depth and new requests (None: unknown), whether a replica is ready, whether none starts."""
    scaling = {
        "mode": "QueueDepth",
        "minReplicas": 2,
        "maxReplicas": 6,
        "headroom": headroom,
        "scaleToZeroAfter": "30m",
    }
    spec = make_pool(scaling=scaling | ({"schedule": SCHEDULE} if scheduled else {})).spec
    memory, now, asked, asked_at = ScalingMemory(), NOW, 0, NOW
    for number, (seconds, demand, ready, started) in enumerate(looks):
        now += timedelta(seconds=seconds)
        before, signal = memory, None
        if demand is not None:
            asked += demand[1]
            signal = QueueSignal(demand[0], 0, asked=asked)
            memory = remember_idle(spec.scaling, remember(memory, signal), signal, now)
        if demand is not None and any(demand):
            asked_at = now
        minimum = scheduled_minimum(spec.scaling.schedule, now)
        counts = ReplicaCounts(before.desired, starting=int(not started), ready=int(ready))
        decision = decide(spec, memory, counts, signal, now)
        assert decision.desired == 0 or max(2, minimum) <= decision.desired <= 6
        assert decision.memory.asleep is (decision.desired == 0)
        if decision.desired == 0 and not before.asleep:
            assert demand == (0, 0)
            assert now - asked_at >= timedelta(minutes=30)
            assert (ready, started, minimum) == (True, True, 0)
        if before.asleep and (minimum or (demand is not None and any(demand))):
            assert decision.desired > 0
        if signal is None and not minimum:
            assert decision.desired == (before.desired or (0 if before.asleep else 2))
        memory = decision.memory
        if number == restart:  # a new operator, which reads what is in the status
            memory = ScalingMemory.model_validate(memory.to_wire())
