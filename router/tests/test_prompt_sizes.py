"""Sums over the prompts that wait on a replica are those that adding them up one by one gives, after any changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_router.prompt_sizes import PromptSizes
from workslice_router.replica_load import EnginePace, ReplicaLoad, ServiceLevel, Work
from workslice_router.soft_choice import OTHERS_ANSWERS, OTHERS_FIRST_TOKEN, STEP_TOKENS, TOKENS_PER_HELD_TOKEN, cost

TOKENS = st.one_of(st.sampled_from([0.0, 100.0, 512.0, 513.0, 60_000.0]), st.floats(0, 1e6))
LEVELS = st.sampled_from([None, ServiceLevel(0.5, 0.05), ServiceLevel(12.0, 0.1), ServiceLevel(0.001, 0.001)])
PACES = st.sampled_from([EnginePace(10_000.0, 512, 4), EnginePace(28_000.0, 8192, 1)])
CHANGES = st.lists(st.tuples(TOKENS, st.floats(0, 1e4), LEVELS, st.integers(0, 40)), max_size=40)


@given(st.lists(st.tuples(TOKENS, st.sampled_from([0.0, 0.1, 2.0]), st.booleans()), max_size=40), TOKENS)
def test_sums_are_right_after_any_changes(changes: list[tuple[float, float, bool]], size: float) -> None:
    sizes, present = PromptSizes(), list[tuple[float, float]]()
    for one, urgency, goes in changes:
        sizes.add(one, urgency)
        present.append((one, urgency))
        if goes:
            gone = present.pop(len(present) // 2)
            sizes.remove(*gone)
        assert sizes.smallest_first == sorted(one for one, _ in present)
        assert sizes.up_to(size) == pytest.approx(sum(min(one, size) for one, _ in present))
        longer, delay = sizes.beside(size)
        assert longer == pytest.approx(sum(max(0.0, one - size) for one, _ in present), abs=1e-3)
        assert delay == pytest.approx(sum(min(one, size) * urgency for one, urgency in present))


def counted_one_by_one(load: ReplicaLoad, prompt: float, answer: float, level: ServiceLevel, pace: EnginePace) -> float:
    """The cost as the decision describes it."""
    prompts = [work.prompt for work in load.prompts]
    until = prompt
    if len(prompts) >= pace.at_once:
        until += sorted(prompts, reverse=True)[pace.at_once - 1]
    first = prompt + sum(min(one, until) for one in prompts)
    step = STEP_TOKENS + load.answering + 1 + len(prompts)
    step += TOKENS_PER_HELD_TOKEN * (load.held_tokens + prompt + answer / 2)
    beside = sum(max(0.0, one - prompt) for one in prompts) / max(1.0, answer)
    step += min(beside, (pace.at_once - 1) * pace.chunk or pace.chunk)
    delay = sum(min(work.prompt, prompt) / work.level.first_token for work in load.prompts if work.level is not None)
    seconds = first / level.first_token + step / level.per_token
    seconds += OTHERS_FIRST_TOKEN * delay + OTHERS_ANSWERS * load.haste * prompt
    return seconds / pace.tokens_per_second


@given(CHANGES, TOKENS, st.floats(0, 1e4), PACES)
def test_a_replica_costs_what_counting_its_prompts_one_by_one_gives(
    changes: list[tuple[float, float, ServiceLevel | None, int]], prompt: float, answer: float, pace: EnginePace
) -> None:
    load, works = ReplicaLoad(), list[Work]()
    for number, (size, length, of_class, end) in enumerate(changes):
        works.append(Work(size, length, of_class))
        load.add(works[-1], float(number), pace)
        if end < len(works):
            load.answered(works[end])
        elif end % 3 == 0:
            load.remove(works.pop())
        level = of_class or ServiceLevel(1.0, 0.1)
        assert cost(load, prompt, answer, level, pace) == pytest.approx(
            counted_one_by_one(load, prompt, answer, level, pace), rel=1e-9
        )
    assert len(load.sizes.smallest_first) == len(load.prompts)
