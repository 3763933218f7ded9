from itertools import pairwise

from hypothesis import assume, example, given
from hypothesis import strategies as st

from workslice_api.pool import Scaling
from workslice_operator.wanted_replicas import demanded_replicas, wanted_replicas

TARGETS = st.integers(1, 100)


def test_replicas_at_their_target_are_as_many_as_wanted() -> None:
    assert demanded_replicas(40_000, 0, 5, 8) == 5
    assert demanded_replicas(40_001, 0, 5, 8) == 6


def test_nothing_to_do_is_worth_no_replica_and_anything_one() -> None:
    assert demanded_replicas(0, 0, 5, 8) == 0
    assert demanded_replicas(1, 0, 5, 8) == 1


def test_what_waits_is_worth_its_part_of_the_target() -> None:
    assert demanded_replicas(24_000, 16, 1, 8) == 3


def test_without_a_ready_replica_all_of_it_waits() -> None:
    assert demanded_replicas(24_000, 0, 0, 8) == 3


def test_a_smaller_size_must_bear_that_it_answers_more_slowly() -> None:
    assert demanded_replicas(7_000, 0, 2, 8) == 2  # divided by the target it would be 1
    assert demanded_replicas(5_000, 0, 2, 8) == 1


def test_a_little_more_than_a_size_bears_and_what_chance_may_bring_back_does_not_change_it() -> None:
    scaling = Scaling(mode="QueueDepth", max_replicas=9, target_per_replica=8)
    assert wanted_replicas(scaling, depth_milli=16_067, queued=0, ready=2, present=2) == 2
    assert wanted_replicas(scaling, depth_milli=16_200, queued=0, ready=2, present=2) == 3
    assert wanted_replicas(scaling, depth_milli=10_500, queued=0, ready=3, present=3) == 3
    assert wanted_replicas(scaling, depth_milli=10_400, queued=0, ready=3, present=3) == 2


@given(
    depths=st.lists(st.integers(0, 10**6), min_size=2, max_size=2), ready=st.integers(0, 9), present=st.integers(0, 9)
)
def test_at_no_size_does_more_demand_want_fewer(depths: list[int], ready: int, present: int) -> None:
    scaling = Scaling(mode="QueueDepth", max_replicas=9, target_per_replica=8)
    low, high = (wanted_replicas(scaling, depth, 0, ready, present) for depth in sorted(depths))
    assert low <= high


@given(depths=st.lists(st.integers(0, 10**6), min_size=2, max_size=2), ready=st.integers(0, 50), target=TARGETS)
def test_more_demand_never_asks_for_fewer(depths: list[int], ready: int, target: int) -> None:
    low, high = sorted(depths)
    assert demanded_replicas(low, 0, ready, target) <= demanded_replicas(high, 0, ready, target)


@given(work=st.floats(0.01, 60), target=TARGETS, slowing=st.floats(0, 1), start=st.integers(1, 80))
@example(work=1.00001, target=13, slowing=1.0, start=1)
def test_whatever_the_load_one_size_is_reached_and_kept(work: float, target: int, slowing: float, start: int) -> None:
    """A replica that alone would have `b` requests at a time has b / (1 - slowing part) of them; at the target answers take up to twice as
    long as alone. Sizes grow at once and shrink later, as far as was asked for.
    """
    share = slowing / 2  # at the target answers take 1 / (1 - share) times as long as alone

    def depth(replicas: int) -> int | None:
        alone = work * target / replicas
        slow = alone * share / (target * (1 - share))
        return None if slow >= 0.98 else round(1000 * replicas * alone / (1 - slow))

    assume(depth(80) is not None)
    scaling = Scaling(mode="QueueDepth", max_replicas=1000, target_per_replica=target)
    sizes = [start]
    for _ in range(120):
        now = depth(sizes[-1])
        size = sizes[-1]
        sizes.append(max(1, 2 * size if now is None else wanted_replicas(scaling, now, 0, size, size)))
    settled = sizes[-20:]
    assert len(set(settled)) == 1, settled
    assert all(b <= a or b <= 2 * a for a, b in pairwise(sizes))
