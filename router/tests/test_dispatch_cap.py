"""How many requests a replica gets at once."""

from hypothesis import example, given
from hypothesis import strategies as st

from workslice_router.dispatch_cap import dispatch_cap
from workslice_router.replica_load import EnginePace, ServiceLevel

PACE = EnginePace(12_000.0, 512, 4)
LEVEL = ServiceLevel(0.5, 0.05)


def test_what_is_unknown_limits_nothing() -> None:
    assert dispatch_cap(64, 0.0, 1000, LEVEL, PACE) == 64
    assert dispatch_cap(64, 1000.0, None, None, None) == 64
    assert dispatch_cap(64, 1000.0, None, LEVEL, None) == 64


def test_the_kv_cache_holds_so_many_requests_of_the_usual_size() -> None:
    assert dispatch_cap(256, 1000.0, 100_000, None, PACE) == 90


def test_the_pace_of_answers_allows_so_many_beside_each_other() -> None:
    assert dispatch_cap(256, 1300.0, None, LEVEL, PACE) == 191
    assert dispatch_cap(256, 13_000.0, None, LEVEL, PACE) == 64, "never below a quarter"


@given(
    st.integers(1, 1000),
    st.floats(0, 1e6),
    st.none() | st.integers(0, 10**7),
    st.none() | st.builds(ServiceLevel, st.floats(0.001, 100), st.floats(0.001, 10)),
    st.none() | st.builds(EnginePace, st.floats(1, 1e6), st.just(512), st.just(4)),
)
@example(most=1, mean=1e-309, kv_tokens=1, level=None, pace=None)
def test_it_is_at_least_one_and_never_above_the_most(
    most: int, mean: float, kv_tokens: int | None, level: ServiceLevel | None, pace: EnginePace | None
) -> None:
    assert 1 <= dispatch_cap(most, mean, kv_tokens, level, pace) <= most
