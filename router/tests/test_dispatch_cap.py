"""How many requests a replica gets at once."""

from hypothesis import example, given
from hypothesis import strategies as st

from workslice_router.dispatch_cap import Requests, dispatch_cap
from workslice_router.replica_load import EnginePace, ServiceLevel

PACE = EnginePace(12_000.0, 512, 4)
LEVEL = ServiceLevel(0.5, 0.05)
LEVELS = st.none() | st.builds(ServiceLevel, st.floats(0.001, 100), st.floats(0.001, 10))
PACES = st.none() | st.builds(EnginePace, st.floats(1, 1e6), st.just(512), st.just(4))
CACHES = st.integers(0, 10**7)
SIZES = st.lists(st.integers(0, 10**6), max_size=100)
NOBODY = Requests(0, 0)


def of(sizes: list[int]) -> Requests:
    return Requests(len(sizes), sum(sizes))


def of_an_idle_replica(
    most: int, mean_tokens: float, kv_tokens: int | None, level: ServiceLevel | None, pace: EnginePace | None
) -> int:
    return dispatch_cap(most, NOBODY, NOBODY, mean_tokens, kv_tokens, level, pace)


def test_what_is_unknown_limits_nothing() -> None:
    assert of_an_idle_replica(64, 0.0, 1000, LEVEL, PACE) == 64
    assert of_an_idle_replica(64, 1000.0, None, None, None) == 64
    assert of_an_idle_replica(64, 1000.0, None, LEVEL, None) == 64


def test_the_kv_cache_holds_so_many_requests_of_the_usual_size() -> None:
    assert of_an_idle_replica(256, 1000.0, 100_000, None, PACE) == 90
    assert dispatch_cap(256, Requests(40, 40_000), NOBODY, 1000.0, 100_000, None, PACE) == 90, (
        "those that run are of that size too"
    )


def test_the_pace_of_answers_allows_so_many_beside_each_other() -> None:
    assert of_an_idle_replica(256, 1300.0, None, LEVEL, PACE) == 191
    assert dispatch_cap(256, Requests(100, 130_000), NOBODY, 1300.0, None, LEVEL, PACE) == 191, (
        "those that run are of that size too"
    )
    assert of_an_idle_replica(256, 13_000.0, None, LEVEL, PACE) == 64, "never below a quarter"


def test_small_requests_that_wait_find_all_places_open_as_soon_as_giants_have_ended() -> None:
    giants, small = Requests(2, 60_000), Requests(100, 30_000)
    assert dispatch_cap(256, giants, NOBODY, 30_000.0, 250_000, None, None) == 7
    assert dispatch_cap(256, giants, small, 30_000.0, 250_000, None, None) == 2 + 100 + 4
    assert dispatch_cap(256, NOBODY, small, 30_000.0, 250_000, LEVEL, PACE) == 100 + 6


def test_giants_find_no_more_places_than_the_cache_holds_beside_small_requests() -> None:
    small, giants = Requests(100, 30_000), Requests(20, 600_000)
    assert dispatch_cap(256, small, NOBODY, 300.0, 250_000, None, None) == 256
    assert dispatch_cap(256, small, giants, 300.0, 250_000, None, None) == 100 + 6
    assert dispatch_cap(256, Requests(106, 210_000), NOBODY, 300.0, 250_000, None, None) == 106 + 50


def test_a_cache_that_is_too_full_gives_no_place_away_before_enough_have_ended() -> None:
    giants, more = Requests(100, 3_000_000), Requests(50, 1_500_000)
    assert dispatch_cap(256, giants, more, 30_000.0, 100_000, None, None) == 3
    assert dispatch_cap(256, giants, NOBODY, 300.0, 100_000, None, None) == 3, "whatever comes later"


def test_answers_that_are_too_slow_beside_each_other_get_no_more_beside_them_before_enough_have_ended() -> None:
    running, waiting = Requests(250, 325_000), Requests(100, 130_000)
    assert dispatch_cap(256, running, waiting, 1300.0, None, LEVEL, PACE) == 191


@given(st.integers(1, 1000), SIZES, SIZES, st.floats(0, 1e6), st.none() | CACHES, LEVELS, PACES)
@example(most=1, running=[], waiting=[], mean=1e-309, kv_tokens=1, level=None, pace=None)
def test_it_is_at_least_one_and_never_above_the_most(
    most: int,
    running: list[int],
    waiting: list[int],
    mean: float,
    kv_tokens: int | None,
    level: ServiceLevel | None,
    pace: EnginePace | None,
) -> None:
    assert 1 <= dispatch_cap(most, of(running), of(waiting), mean, kv_tokens, level, pace) <= most


@given(SIZES, SIZES, st.floats(1, 1e6), CACHES)
def test_what_may_come_beside_what_runs_fits_the_kv_cache(
    running: list[int], waiting: list[int], mean: float, kv_tokens: int
) -> None:
    cap = dispatch_cap(1000, of(running), of(waiting), mean, kv_tokens, None, None)
    more = cap - len(running)
    if cap > 1 and more > 0:
        of_those = sum(waiting) / len(waiting) * min(more, len(waiting)) if waiting else 0.0
        assert sum(running) + of_those + max(0, more - len(waiting)) * mean <= kv_tokens


@given(SIZES, SIZES, st.floats(1, 1e6), CACHES)
def test_as_many_as_it_allows_of_what_runs_fit_the_kv_cache(
    running: list[int], waiting: list[int], mean: float, kv_tokens: int
) -> None:
    cap = dispatch_cap(1000, of(running), of(waiting), mean, kv_tokens, None, None)
    if running and cap > 1:
        assert sum(running) / len(running) * min(cap, len(running)) <= kv_tokens


@given(SIZES, SIZES, st.floats(1, 1e6), st.none() | CACHES, LEVELS, PACES, st.integers(0, 199), st.integers(1, 10**6))
def test_a_smaller_request_in_the_place_of_another_never_lowers_it(
    running: list[int],
    waiting: list[int],
    mean: float,
    kv_tokens: int | None,
    level: ServiceLevel | None,
    pace: EnginePace | None,
    which: int,
    less: int,
) -> None:
    everyone = running + waiting
    smaller = [max(0, size - less) if number == which else size for number, size in enumerate(everyone)]
    before, after = (
        dispatch_cap(256, of(some[: len(running)]), of(some[len(running) :]), mean, kv_tokens, level, pace)
        for some in (everyone, smaller)
    )
    assert after >= before
