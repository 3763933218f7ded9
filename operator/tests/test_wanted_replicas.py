from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from workslice_operator.wanted_replicas import demanded_replicas

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


@given(depths=st.lists(st.integers(0, 10**6), min_size=2, max_size=2), ready=st.integers(0, 50), target=TARGETS)
def test_more_demand_never_asks_for_fewer(depths: list[int], ready: int, target: int) -> None:
    low, high = sorted(depths)
    assert demanded_replicas(low, 0, ready, target) <= demanded_replicas(high, 0, ready, target)


@given(work=st.floats(0.01, 60), target=TARGETS, slowing=st.floats(0, 1), start=st.integers(1, 80))
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
    sizes = [start]
    for _ in range(120):
        now = depth(sizes[-1])
        sizes.append(max(1, 2 * sizes[-1] if now is None else demanded_replicas(now, 0, sizes[-1], target)))
    settled = sizes[-20:]
    assert len(set(settled)) == 1, settled
    assert all(b <= a or b <= 2 * a for a, b in pairwise(sizes))
