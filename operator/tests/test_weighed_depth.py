from hypothesis import given
from hypothesis import strategies as st

from workslice_api.pool import ScalingMemory
from workslice_operator.observed import QueueSignal
from workslice_operator.weighed_depth import remember, weighed_depth


def looks(*depths: int, memory: ScalingMemory | None = None) -> tuple[ScalingMemory, int]:
    """The memory after looks at these depths, and the depth that counts then."""
    memory = memory or ScalingMemory()
    for depth in depths:
        memory = remember(memory, QueueSignal(0, depth))
    return memory, weighed_depth(memory, QueueSignal(0, depths[-1])) // 1000


def test_before_the_first_look_the_signal_itself_counts() -> None:
    assert weighed_depth(ScalingMemory(), QueueSignal(3, 4)) == 7000


def test_a_single_look_is_no_surge() -> None:
    assert looks(*[10] * 9, 90)[1] == 15


def test_a_surge_counts_at_its_second_look() -> None:
    assert looks(*[10] * 9, 90, 80)[1] == 80


def test_demand_that_is_gone_counts_as_gone_at_the_second_look() -> None:
    assert looks(*[80] * 9, 10, 12)[1] == 12


def test_the_end_of_a_burst_asks_for_no_more_again() -> None:
    memory, depth = looks(*[80] * 30, 12, 12)
    assert depth == 12
    for _ in range(60):
        memory, depth = looks(12, memory=memory)
        assert depth == 12


def test_what_chance_explains_does_not_count() -> None:
    assert looks(*[100] * 9, 118, 119)[1] == 102


def test_what_two_looks_at_the_same_requests_reach_by_chance_within_hours_does_not_count() -> None:
    assert looks(*[16] * 9, 28, 29)[1] == 17


def test_a_depth_that_does_not_change_ends_in_a_memory_that_does_not() -> None:
    memory, depth = looks(*[900] * 5, *[7] * 240)
    assert depth == 7
    assert remember(memory, QueueSignal(7, 0)) is memory


@given(depths=st.lists(st.integers(0, 500), min_size=1, max_size=50))
def test_a_memory_that_was_written_and_read_back_is_the_same(depths: list[int]) -> None:
    memory, _ = looks(*depths)
    assert ScalingMemory.model_validate(memory.to_wire()) == memory


@given(depths=st.lists(st.integers(0, 500), min_size=1, max_size=50))
def test_the_depth_that_counts_lies_within_what_was_seen(depths: list[int]) -> None:
    memory, _ = looks(*depths)
    assert min(depths) * 1000 <= weighed_depth(memory, QueueSignal(0, depths[-1])) <= max(depths) * 1000


@given(depths=st.lists(st.integers(0, 500), min_size=1, max_size=80))
def test_demand_that_only_falls_never_asks_for_more(depths: list[int]) -> None:
    memory, before = ScalingMemory(), 500_000
    for depth in sorted(depths, reverse=True):
        memory = remember(memory, QueueSignal(0, depth))
        now = weighed_depth(memory, QueueSignal(0, depth))
        assert depth * 1000 <= now <= before
        before = now


@given(depths=st.lists(st.integers(0, 500), min_size=1, max_size=40), last=st.integers(0, 500))
def test_a_depth_that_stays_is_approached_from_one_side_and_reached(depths: list[int], last: int) -> None:
    memory, _ = looks(*depths, last, last)  # until here the look before may count as well
    missing = []
    for _ in range(240):
        memory, _ = looks(last, memory=memory)
        missing.append(last * 1000 - weighed_depth(memory, QueueSignal(0, last)))
    assert missing[-1] == 0
    assert missing == sorted(missing, key=abs, reverse=True)
    assert len({one > 0 for one in missing if one}) <= 1


@given(depths=st.lists(st.integers(0, 300), max_size=40), last=st.tuples(st.integers(0, 500), st.integers(0, 500)))
def test_a_larger_depth_never_counts_as_less(depths: list[int], last: tuple[int, int]) -> None:
    memory, _ = looks(*depths) if depths else (ScalingMemory(), 0)
    low, high = (weighed_depth(remember(memory, QueueSignal(0, one)), QueueSignal(0, one)) for one in sorted(last))
    assert low <= high
