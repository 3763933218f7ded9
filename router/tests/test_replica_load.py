"""What a router believes that its requests leave to compute."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from workslice_router.replica_load import EnginePace, ReplicaLoad, ServiceLevel, Work, tokens_ahead

PACE = EnginePace(1000.0, 100, 4)
LEVEL = ServiceLevel(0.5, 0.05)


def work(prompt: float, answer: float = 10.0) -> Work:
    return Work(prompt, answer, LEVEL)


def loaded(*prompts: float) -> ReplicaLoad:
    load = ReplicaLoad()
    for prompt in prompts:
        load.add(work(prompt), 0.0, PACE)
    return load


def test_a_prompt_waits_for_itself_alone_where_nothing_runs() -> None:
    assert tokens_ahead(ReplicaLoad(), 300, PACE) == 300


def test_a_short_prompt_beside_a_long_one_is_slowed_by_its_own_length_only() -> None:
    assert tokens_ahead(loaded(60_000), 300, PACE) == 600


def test_a_long_prompt_waits_for_all_shorter_ones() -> None:
    assert tokens_ahead(loaded(100, 200), 5000, PACE) == 5300


def test_engines_without_chunks_for_long_prompts_work_them_off_one_by_one() -> None:
    assert tokens_ahead(loaded(60_000, 500), 300, replace(PACE, at_once=1)) == 60_800


def test_with_all_turns_taken_a_prompt_waits_for_the_one_that_ends_first() -> None:
    assert tokens_ahead(loaded(50, 1000, 1000, 1000), 10, PACE) == 10 + 50 + 3 * 60


def test_a_prompt_counts_in_full_until_its_first_token() -> None:
    load = loaded(100)
    (one,) = load.prompts
    assert tokens_ahead(load, 500, PACE) == 600
    load.answered(one)
    assert tokens_ahead(load, 500, PACE) == 500


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e4), st.booleans()), max_size=30))
def test_nothing_is_left_when_all_have_ended(requests: list[tuple[float, float, bool]]) -> None:
    load = ReplicaLoad()
    works = [(work(prompt, answer), answered) for prompt, answer, answered in requests]
    for number, (one, _) in enumerate(works):
        load.add(one, float(number), PACE)
    for one, answered in works:
        if answered:
            assert load.answered(one)
            assert not load.answered(one), "known already"
    for one, _ in works:
        load.remove(one)
    assert (load.prompts, load.answering, load.haste, load.held_tokens) == ({}, 0, 0.0, 0.0)
    assert load.sizes.smallest_first == []
