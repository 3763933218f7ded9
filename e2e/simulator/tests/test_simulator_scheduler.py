from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sim.kv_blocks import BlockPool
from engine_sim.scheduler import Limits, Sequence, State, abort, add, complete, plan

BLOCK = 4


def engine(*, blocks: int = 16, **limits: Any) -> State:
    chosen = {"sequences": 8, "batched_tokens": 32, "block_size": BLOCK, "by_priority": True} | limits
    return State(Limits(**chosen), BlockPool(blocks))


def sequence(number: int, prompt: int = 4, answer: int = 4, *, shared: int = 0, **fields: Any) -> Sequence:
    """Prompts are alike in their first `shared` tokens only."""
    tokens = [*range(shared), *(1000 * (number + 1) + position for position in range(prompt - shared))]
    chosen: dict[str, Any] = {"arrival": float(number), "next_token": lambda position: 9000 + number} | fields
    return Sequence(number, tokens, answer, **chosen)


def run(state: State, *sequences: Sequence, until: Callable[[], bool] = lambda: False, most: int = 10_000) -> int:
    """Add the sequences and step until nothing is left (or `until`); return the number of steps."""
    for one in sequences:
        add(state, one)
    for steps in range(most):
        if state.idle or until():
            return steps
        complete(state, plan(state, steps), steps + 0.5)
    raise AssertionError(f"not done after {most} steps: {state}")


def assert_blocks_add_up(state: State) -> None:
    held = Counter(block for one in state.running for block in one.blocks)
    pool = state.pool
    assert [held[block] for block in range(pool.size)] == pool.holders
    assert set(pool.free) == {block for block in range(pool.size) if not held[block]}
    assert all(not one.blocks for one in state.waiting)
    assert {pool.known[prefix]: prefix for prefix in pool.known} == pool.prefix_of


def test_an_answer_has_the_tokens_asked_for() -> None:
    one = sequence(0, answer=7)
    run(engine(), one)
    assert (len(one.output), one.finish_reason) == (7, "length")


def test_the_model_may_end_earlier_with_a_token_that_says_so() -> None:
    one = sequence(0, answer=7, ends_at=2)
    run(engine(), one)
    assert (len(one.output), one.finish_reason) == (3, "stop")


def test_a_long_prompt_is_computed_in_chunks_of_the_budget() -> None:
    state = engine(blocks=64)
    assert run(state, sequence(0, prompt=100, answer=1)) == 4  # 32 tokens a step


def test_what_runs_comes_before_a_new_prompt_in_the_budget() -> None:
    state = engine(blocks=64, batched_tokens=10)
    first = sequence(0, prompt=4, answer=50)
    run(state, first, until=lambda: bool(first.output))
    add(state, sequence(1, prompt=30))
    shares = plan(state, 1.0).shares
    assert [(share.sequence.id, share.tokens) for share in shares] == [(0, 1), (1, 9)]


def test_a_long_prompt_ahead_of_a_short_one_keeps_it_waiting_for_the_whole_budget() -> None:
    state = engine(blocks=64, batched_tokens=16)
    short = sequence(1, prompt=4, answer=1)
    assert run(state, sequence(0, prompt=100, answer=1), short, until=lambda: bool(short.output)) > 5


def test_the_threshold_lets_a_short_prompt_run_beside_a_long_one() -> None:
    state = engine(blocks=64, batched_tokens=16, long_prefill_threshold=8)
    short = sequence(1, prompt=4, answer=1)
    assert run(state, sequence(0, prompt=100, answer=1), short, until=lambda: bool(short.output)) == 1


def test_the_threshold_does_not_slow_a_prompt_that_is_alone() -> None:
    assert run(engine(blocks=64, long_prefill_threshold=8), sequence(0, prompt=64, answer=1)) == 2


def test_the_lowest_priority_number_joins_first_and_then_the_earliest() -> None:
    state = engine(sequences=1)
    waiting = [sequence(0, priority=5), sequence(1, priority=-1), sequence(2), sequence(3)]
    ended: list[int] = []
    for one in waiting:
        add(state, one)
    while not state.idle:
        complete(state, plan(state, 0.0), 0.5)
        ended += [one.id for one in waiting if one.finish_reason and one.id not in ended]
    assert ended == [1, 2, 3, 0]


def test_without_priorities_the_first_come_joins_first() -> None:
    state = engine(sequences=1, by_priority=False)
    late, early = sequence(1, priority=-5), sequence(0, priority=5)
    run(state, late, early, until=lambda: bool(early.finish_reason))
    assert not late.output


def test_when_blocks_run_out_the_least_important_gives_up_its_own_and_still_ends() -> None:
    state = engine(blocks=8)
    important, other = sequence(0, prompt=8, answer=20), sequence(1, prompt=8, answer=20, priority=3)
    run(state, other, important)
    assert (important.preemptions, other.preemptions > 0) == (0, True)
    assert (len(important.output), len(other.output)) == (20, 20)


def test_a_prompt_joins_only_when_all_of_it_fits() -> None:
    state = engine(blocks=8)
    first = sequence(0, prompt=16, answer=8)
    run(state, first, sequence(1, prompt=20), until=lambda: bool(first.output))
    assert [one.id for one in state.waiting] == [1]


def test_a_known_prefix_is_not_computed_again() -> None:
    state = engine(blocks=64)
    run(state, sequence(0, prompt=20, answer=1, shared=16))
    again = sequence(1, prompt=20, answer=1, shared=16)
    run(state, again)
    assert again.cached_tokens == 16


def test_a_whole_known_prompt_still_computes_its_last_block() -> None:
    state = engine(blocks=64)
    run(state, sequence(0, prompt=16, answer=1, shared=16))
    again = sequence(1, prompt=16, answer=1, shared=16)
    run(state, again)
    assert again.cached_tokens == 12


@pytest.mark.parametrize(("salt", "cached"), [("a", 16), ("b", 0), ("", 0)])
def test_a_prefix_is_known_under_its_own_salt_only(salt: str, cached: int) -> None:
    state = engine(blocks=64)
    run(state, sequence(0, prompt=20, answer=1, shared=16, salt="a"))
    again = sequence(1, prompt=20, answer=1, shared=16, salt=salt)
    run(state, again)
    assert again.cached_tokens == cached


def test_a_prefix_is_forgotten_when_its_place_is_needed() -> None:
    state = engine(blocks=8)
    run(state, sequence(0, prompt=16, answer=1, shared=16))
    run(state, sequence(1, prompt=31, answer=1))
    again = sequence(2, prompt=16, answer=1, shared=16)
    run(state, again)
    assert again.cached_tokens == 0


def test_an_aborted_sequence_gives_its_blocks_back_at_once() -> None:
    state = engine()
    one = sequence(0, answer=50)
    run(state, one, until=lambda: len(one.output) == 5)
    abort(state, one)
    assert (state.idle, state.pool.usage, one.finish_reason) == (True, 0, "abort")


def test_a_sequence_aborted_in_the_middle_of_a_step_gets_no_token_from_it() -> None:
    state = engine()
    one = sequence(0)
    add(state, one)
    step = plan(state, 0.0)
    abort(state, one)
    assert complete(state, step, 0.5) == []


SHAPES = st.tuples(
    st.integers(1, 40),  # prompt
    st.integers(1, 24),  # answer
    st.integers(-2, 2),  # priority
    st.integers(0, 12),  # shared beginning
    st.integers(0, 30),  # the step at which it comes
    st.none() | st.integers(0, 60),  # the step at which its client goes
)


@settings(max_examples=300)
@given(
    shapes=st.lists(SHAPES, max_size=14),
    blocks=st.integers(16, 24),
    places=st.integers(1, 6),
    budget=st.integers(4, 48),
    threshold=st.sampled_from((0, 4, 16)),
    watermark=st.sampled_from((0.0, 0.1)),
    caching=st.booleans(),
    by_priority=st.booleans(),
)
def test_whatever_comes_blocks_add_up_limits_hold_and_every_answer_ends(
    shapes: list[tuple[int, int, int, int, int, int | None]],
    blocks: int,
    places: int,
    budget: int,
    threshold: int,
    watermark: float,
    caching: bool,
    by_priority: bool,
) -> None:
    state = engine(
        blocks=blocks,
        sequences=places,
        batched_tokens=budget,
        long_prefill_threshold=threshold,
        watermark=watermark,
        prefix_caching=caching,
        by_priority=by_priority,
    )
    made = [
        (
            sequence(number, prompt, answer, shared=min(shared, prompt), priority=priority, arrival=float(comes)),
            comes,
            goes,
        )
        for number, (prompt, answer, priority, shared, comes, goes) in enumerate(shapes)
    ]
    now = 0
    while now <= 31 or not state.idle:
        for one, comes, goes in made:
            if comes == now:
                add(state, one)
            if goes is not None and goes == now > comes:
                abort(state, one)
        before = {one.id: len(one.output) for one in state.running}
        step = plan(state, now)
        assert sum(share.tokens for share in step.shares) <= budget
        assert all(share.tokens > 0 for share in step.shares)
        assert len(state.running) <= places
        assert_blocks_add_up(state)
        tokens = complete(state, step, now + 0.5)
        assert len({token.sequence.id for token in tokens}) == len(tokens)
        assert_blocks_add_up(state)
        assert step.shares or state.idle or step.preempted, f"stuck with {state}"
        assert all(len(one.output) >= before.get(one.id, 0) for one in state.running)
        now += 1
        assert now < 5000
    assert state.pool.usage == 0
    for one, _, goes in made:
        assert one.finish_reason == "length" or (goes is not None and one.finish_reason == "abort")
        assert one.finish_reason == "abort" or len(one.output) == one.max_tokens


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 20)), min_size=2, max_size=10), st.integers(1, 4))
def test_nobody_joins_before_somebody_more_important_that_waits(waiting: list[tuple[int, int]], places: int) -> None:
    state = engine(blocks=64, sequences=places)
    for number, (priority, prompt) in enumerate(waiting):
        add(state, sequence(number, prompt, priority=priority))
    while not state.idle:
        queue = [(one.priority, one.id) for one in state.waiting]
        assert queue == sorted(queue)
        joined = {share.sequence.id for share in plan_and_complete(state)}
        left = {(one.priority, one.id) for one in state.waiting}
        assert all(one not in left for one in queue if one[1] in joined)
        assert not left or max((one for one in queue if one not in left), default=min(left)) <= min(left)


def plan_and_complete(state: State) -> tuple[Any, ...]:
    step = plan(state, 0.0)
    complete(state, step, 0.5)
    return step.shares
