from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from pool_facts import NOW

from workslice_api.pool import MAX_LOWER_DEMANDS, LowerDemand
from workslice_operator.lower_demand import asked, claims_no_more, most_within


def line(seconds_ago: float, replicas: int) -> LowerDemand:
    return LowerDemand(since=(NOW - timedelta(seconds=seconds_ago)).isoformat(), replicas=replicas)


def test_demand_that_falls_further_adds_a_line() -> None:
    assert asked([line(60, 5)], 3, NOW) == [line(60, 5), line(0, 3)]


def test_demand_that_rises_a_little_raises_the_lines_below_it_and_keeps_their_age() -> None:
    assert asked([line(60, 5), line(40, 3), line(20, 1)], 4, NOW) == [line(60, 5), line(40, 4)]


def test_demand_that_stays_changes_nothing() -> None:
    lines = [line(60, 5), line(40, 3)]
    assert asked(lines, 3, NOW) == lines


def test_a_line_that_an_operator_with_a_clock_ahead_has_left_counts_from_now() -> None:
    assert asked([line(-60, 3)], 3, NOW) == [line(0, 3)]


def test_only_lines_as_old_as_the_window_count() -> None:
    lines = [line(60, 5), line(40, 3), line(20, 1)]
    assert [most_within(lines, window, NOW) for window in (61, 60, 41, 40, 20)] == [None, 5, 5, 3, 1]


# No two looks are at the same moment: of two the later one would count for the whole of it.
STEPS = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 12)), min_size=1, max_size=60)


@given(steps=STEPS, window=st.integers(0, 90))
def test_a_pool_may_never_shrink_below_the_most_of_the_window_and_the_lines_stay_few(
    steps: list[tuple[int, int]], window: int
) -> None:
    lines: list[LowerDemand] = []
    now, begun = NOW, NOW
    seen: list[tuple[float, int]] = []
    for seconds, wanted in steps:
        now += timedelta(seconds=seconds + 1)  # of two demands at one moment the later one counts
        lines = asked(lines, wanted, now)
        seen.append((now.timestamp(), wanted))
        most = most_within(lines, window, now)
        assert len(lines) <= MAX_LOWER_DEMANDS
        assert [one.replicas for one in lines] == sorted({one.replicas for one in lines}, reverse=True)
        if most is not None:
            assert (now - begun).total_seconds() >= window
            assert most >= max(one for at, one in seen if at >= now.timestamp() - window)


@given(steps=STEPS)
def test_a_few_levels_are_followed_exactly(steps: list[tuple[int, int]]) -> None:
    lines: list[LowerDemand] = []
    now, seen = NOW, []
    for seconds, level in steps:
        now += timedelta(seconds=seconds + 1)
        wanted = level % MAX_LOWER_DEMANDS
        lines = asked(lines, wanted, now)
        seen.append((now.timestamp(), wanted))
        for at, _ in seen:
            expected = max(one for when, one in seen if when >= at)
            assert most_within(lines, now.timestamp() - at, now) == expected


def test_a_memory_without_lines_is_safe_to_start_from() -> None:
    assert claims_no_more([], [line(60, 5)])
    assert claims_no_more([line(50, 5)], [line(60, 5)])
    assert claims_no_more([line(60, 5)], [line(70, 4)])


def test_a_memory_that_knows_nothing_of_demand_that_rose_is_not() -> None:
    assert not claims_no_more([line(60, 5)], [])
    assert not claims_no_more([line(60, 5)], [line(10, 5)])
    assert not claims_no_more([line(60, 3)], [line(60, 4)])
