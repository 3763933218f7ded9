"""The scaler over simulated time: what it forgets when the operator restarts, and whether it comes to rest."""

from datetime import timedelta
from itertools import pairwise
from math import exp
from random import Random

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pool_facts import NOW, make_pool

from workslice_api.pool import ScalingMemory, WorkspacePoolStatus
from workslice_operator.demand import NUMBERS_SECONDS
from workslice_operator.observed import QueueSignal
from workslice_operator.scaling import Decision, ReplicaCounts, decide
from workslice_operator.status_urgency import Urgency, urgency
from workslice_operator.weighed_depth import remember

LOOK_SECONDS = 2
WINDOW_LOOKS = 60
SPEC = make_pool(
    scaling={"mode": "QueueDepth", "maxReplicas": 12, "targetPerReplica": 8, "scaleDownWindow": "2m", "headroom": 1}
).spec
DEPTHS = st.lists(st.tuples(st.integers(0, 120), st.integers(1, 90)), min_size=1, max_size=12).map(
    lambda stages: [depth for depth, looks in stages for _ in range(looks)]
)


class Scaler:
    """One operator and the status that it writes."""

    def __init__(self) -> None:
        self.memory = ScalingMemory()
        self.stored = WorkspacePoolStatus()
        self.written_at = float("-inf")

    def look(self, step: int, depth: int) -> Decision:
        seconds = LOOK_SECONDS * step
        signal = QueueSignal(0, depth)
        self.memory = remember(self.memory, signal)
        decision = decide(
            SPEC, self.memory, ReplicaCounts(self.memory.desired), signal, NOW + timedelta(seconds=seconds)
        )
        self.memory = decision.memory
        status = WorkspacePoolStatus(scaling=self.memory, queue_depth=depth)
        how = urgency(self.stored, status)
        if how is Urgency.DECISION or (how is Urgency.NUMBERS and seconds - self.written_at >= NUMBERS_SECONDS):
            self.stored, self.written_at = status, seconds
        return decision

    def restart(self) -> None:
        self.memory = WorkspacePoolStatus.model_validate(self.stored.to_wire()).scaling


@pytest.mark.slow
@given(depths=DEPTHS, at=st.data())
def test_an_operator_that_reads_its_memory_back_decides_the_same(depths: list[int], at: st.DataObject) -> None:
    restart = at.draw(st.integers(0, len(depths) - 1))
    one, other = Scaler(), Scaler()
    for step, depth in enumerate(depths):
        if step == restart:
            other.memory = ScalingMemory.model_validate(other.memory.to_wire())
        assert one.look(step, depth) == other.look(step, depth)


@given(depths=DEPTHS, at=st.data())
def test_a_restart_from_the_status_as_it_was_written_takes_no_replica_sooner(
    depths: list[int], at: st.DataObject
) -> None:
    restart = at.draw(st.integers(0, len(depths) - 1))
    scaler, asked_for = Scaler(), []
    for step, depth in enumerate(depths):
        if step == restart:
            scaler.restart()
        before = scaler.memory.desired
        decision = scaler.look(step, depth)
        if decision.desired < before:
            assert decision.desired >= max(asked_for[-WINDOW_LOOKS:])
        lower = decision.memory.lower
        asked_for.append(lower[-1].replicas if lower else decision.desired)


@pytest.mark.slow
@given(depths=DEPTHS, at=st.data())
def test_after_a_restart_the_size_is_soon_the_same_again(depths: list[int], at: st.DataObject) -> None:
    restart = at.draw(st.integers(0, len(depths) - 1))
    one, other = Scaler(), Scaler()
    rest = [*depths, *[depths[-1]] * 240]
    for step, depth in enumerate(rest):
        if step == restart:
            other.restart()
        a, b = one.look(step, depth), other.look(step, depth)
    # Which of two sizes a load at their very edge has depends on where it came from.
    assert abs(a.desired - b.desired) <= 1


@given(
    work=st.floats(0.05, 10),
    slowing=st.floats(0, 1),
    target=st.integers(2, 40),
    headroom=st.integers(0, 3),
    start=st.integers(1, 12),
    cold_start=st.integers(1, 60),
)
@example(work=2.0, slowing=1.0, target=3, headroom=3, start=1, cold_start=1)
@example(work=1.0, slowing=1.0, target=5, headroom=3, start=1, cold_start=1)
@example(work=2.00001, slowing=0.0, target=8, headroom=0, start=1, cold_start=1)
@settings(max_examples=60)
def test_under_a_constant_load_nothing_scales_after_ten_minutes(
    work: float, slowing: float, target: int, headroom: int, start: int, cold_start: int
) -> None:
    """More replicas answer faster and so have fewer requests at a time: the size changes the very signal that it follows. With less
    than one request at a time there is no constant load: it comes and goes.
    """
    assume(work * target >= 1)
    scaling = {"mode": "QueueDepth", "maxReplicas": 40, "targetPerReplica": target, "headroom": headroom}
    spec = make_pool(scaling=scaling | {"scaleDownWindow": "2m"}).spec
    memory, depth, left = ScalingMemory(), 0.0, 0.5
    ready_at = [0] * start
    sizes = []
    for step in range(0, 1200, LOOK_SECONDS):
        ready = sum(at <= step for at in ready_at)
        depth += (_settled_depth(work * target, slowing / 2, target, ready) - depth) * (1 - exp(-LOOK_SECONDS / 5))
        # Requests are whole: what is left of one shows at the next look.
        whole, left = divmod(depth + left, 1)
        signal = QueueSignal(0, int(whole))
        memory = remember(memory, signal)
        counts = ReplicaCounts(len(ready_at), len(ready_at) - ready, 0, ready)
        decision = decide(spec, memory, counts, signal, NOW + timedelta(seconds=step))
        memory = decision.memory
        sizes.append(decision.desired)
        ready_at = ready_at[: decision.desired]
        ready_at += [step + cold_start] * (decision.desired - len(ready_at))
    assert len(set(sizes[300:])) == 1, sizes


def _settled_depth(alone: float, share: float, target: int, replicas: int) -> float:
    """Requests at a time when `replicas` serve what would be `alone` requests if answers were never slow; at the target an answer takes
    1 / (1 - share) times as long as alone.
    """
    slow = min(0.95, alone / replicas * share / (target * (1 - share)))
    return alone / (1 - slow)


@pytest.mark.parametrize("requests", [6, 12, 20, 40])
def test_at_a_constant_rate_chance_seldom_scales_even_with_a_small_target_and_a_short_window(requests: int) -> None:
    """Requests come by chance, so many of them at a time as a mean. What is at the very edge of two sizes may move, a few times an hour."""
    chance = Random(requests)
    stays = exp(-LOOK_SECONDS / 6)  # a request takes six seconds
    scaling = {"mode": "QueueDepth", "maxReplicas": 40, "targetPerReplica": 5, "scaleDownWindow": "1m"}
    spec, memory, depth, sizes = make_pool(scaling=scaling).spec, ScalingMemory(), requests, []
    for step in range(0, 3600, LOOK_SECONDS):
        depth = sum(chance.random() < stays for _ in range(depth)) + _arrivals(chance, requests * (1 - stays))
        signal = QueueSignal(0, depth)
        memory = remember(memory, signal)
        decision = decide(spec, memory, ReplicaCounts(memory.desired), signal, NOW + timedelta(seconds=step))
        memory = decision.memory
        sizes.append(decision.desired)
    settled = sizes[300:]
    assert sum(one != other for one, other in pairwise(settled)) <= 5, settled


def _arrivals(chance: Random, mean: float) -> int:
    """As many as come by chance when the mean is this."""
    count, left = 0, chance.expovariate(1)
    while left < mean:
        count, left = count + 1, left + chance.expovariate(1)
    return count
