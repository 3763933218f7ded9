"""Estimating the tokens of a prompt, and learning from what engines count."""

from hypothesis import given
from hypothesis import strategies as st
from routed_pools import view

from workslice_router.estimate import FIRST_MEDIA_TOKENS, LARGEST_RATIO, SMALLEST_RATIO, Estimator
from workslice_router.text_size import TextKind


def test_the_size_by_weights_counts_before_anything_is_learned() -> None:
    assert Estimator().prompt_tokens("tiny", view(prompt_size=100)) == 100
    assert Estimator().placed_prompt_tokens("tiny", view(prompt_size=100)) == 100


def test_spelled_out_tokens_are_exact() -> None:
    assert Estimator().prompt_tokens("tiny", view(prompt_size=0, prompt_tokens=77)) == 77


def test_learns_each_models_own_ratio() -> None:
    estimator = Estimator()
    for _ in range(100):
        estimator.learn_prompt("dense", view(prompt_size=1000), 2000)
    assert 1950 <= estimator.prompt_tokens("dense", view(prompt_size=1000)) <= 2000
    assert estimator.prompt_tokens("other", view(prompt_size=1000)) == 1000


def test_learns_each_kind_on_its_own_and_takes_the_mean_for_one_never_seen() -> None:
    estimator = Estimator()
    for _ in range(200):
        estimator.learn_prompt("tiny", view(prompt_size=2000, kind=TextKind.CODE), 3000)
        estimator.learn_prompt("tiny", view(prompt_size=2000, kind=TextKind.CHINESE), 1000)
    assert 1480 <= estimator.prompt_tokens("tiny", view(prompt_size=1000, kind=TextKind.CODE)) <= 1500
    assert 500 <= estimator.prompt_tokens("tiny", view(prompt_size=1000, kind=TextKind.CHINESE)) <= 520
    assert 800 <= estimator.prompt_tokens("tiny", view(prompt_size=1000, kind=TextKind.KOREAN)) <= 1200


def test_a_kind_that_varies_is_placed_with_a_wider_margin() -> None:
    estimator = Estimator()
    for number in range(500):
        estimator.learn_prompt("tiny", view(prompt_size=2000, kind=TextKind.PROSE), 2000)
        estimator.learn_prompt("tiny", view(prompt_size=2000, kind=TextKind.DATA), 2400 if number % 2 else 1600)
    steady, varying = view(prompt_size=1000), view(prompt_size=1000, kind=TextKind.DATA)
    assert estimator.placed_prompt_tokens("tiny", steady) <= 1001
    margin = estimator.placed_prompt_tokens("tiny", varying) - estimator.prompt_tokens("tiny", varying)
    assert 80 <= margin <= 200


def test_learns_how_many_tokens_an_image_is() -> None:
    estimator = Estimator()
    asked = view(prompt_size=100, media=2)
    assert estimator.prompt_tokens("tiny", asked) == 100 + 2 * FIRST_MEDIA_TOKENS
    for _ in range(100):
        estimator.learn_prompt("tiny", asked, 100 + 2 * 256)
    assert 600 <= estimator.prompt_tokens("tiny", asked) <= 640


def test_a_long_prompt_teaches_more_than_a_short_one() -> None:
    """The chat template's own text is a large part of a short prompt."""
    by_short, by_long = Estimator(), Estimator()
    by_short.learn_prompt("tiny", view(prompt_size=100), 150)
    by_long.learn_prompt("tiny", view(prompt_size=2000), 3000)
    assert 1 < by_short.ratio("tiny", TextKind.PROSE) < by_long.ratio("tiny", TextKind.PROSE)


def test_a_tiny_prompt_or_a_list_teaches_nothing() -> None:
    estimator = Estimator()
    estimator.learn_prompt("tiny", view(prompt_size=10), 60)
    estimator.learn_prompt("tiny", view(prompt_size=1000, prompts=8), 2000)
    estimator.learn_prompt("tiny", view(prompt_size=1000, prompt_tokens=5), 2000)
    assert estimator.ratio("tiny", TextKind.PROSE) == 1.0


def test_an_engine_that_stops_counting_teaches_only_that_there_were_more() -> None:
    estimator = Estimator()
    estimator.learn_least("tiny", view(prompt_size=1000), 800)
    assert estimator.ratio("tiny", TextKind.PROSE) == 1.0
    estimator.learn_least("tiny", view(prompt_size=1000), 1500)
    assert estimator.ratio("tiny", TextKind.PROSE) > 1.0


def test_an_engine_may_have_kept_room_for_the_answer_when_it_found_the_prompt_too_long() -> None:
    estimator = Estimator()
    estimator.learn_least("tiny", view(prompt_size=1000, max_tokens=1500), 2049)
    assert estimator.ratio("tiny", TextKind.PROSE) == 1.0, "more than 548 tokens is no news"
    estimator.learn_least("tiny", view(prompt_size=1000, max_tokens=9000), 2049)
    assert estimator.ratio("tiny", TextKind.PROSE) == 1.0
    estimator.learn_least("tiny", view(prompt_size=1000, max_tokens=None), 2049)
    assert estimator.ratio("tiny", TextKind.PROSE) > 1.0


def test_a_prompt_that_the_engine_cuts_before_it_counts_teaches_nothing() -> None:
    estimator = Estimator()
    estimator.learn_prompt("tiny", view(prompt_size=1000, truncates_prompt=True), 10)
    estimator.learn_least("tiny", view(prompt_size=1000, truncates_prompt=True), 5000)
    assert estimator.ratio("tiny", TextKind.PROSE) == 1.0


def test_one_odd_request_moves_a_settled_ratio_by_one_percent_at_most() -> None:
    estimator = Estimator()
    for _ in range(100):
        estimator.learn_prompt("tiny", view(prompt_size=2000), 2000)
    for odd in (10**7, 1):
        before = estimator.ratio("tiny", TextKind.PROSE)
        estimator.learn_prompt("tiny", view(prompt_size=2000), odd)
        assert abs(estimator.ratio("tiny", TextKind.PROSE) / before - 1) <= 0.0101


@given(st.lists(st.tuples(st.integers(50, 10**6), st.integers(0, 10**7), st.sampled_from(TextKind))))
def test_no_answer_moves_the_ratio_out_of_its_bounds(answers: list[tuple[int, int, TextKind]]) -> None:
    estimator = Estimator()
    for size, tokens, kind in answers:
        estimator.learn_prompt("tiny", view(prompt_size=size, kind=kind), tokens)
    for kind in TextKind:
        assert SMALLEST_RATIO <= estimator.ratio("tiny", kind) <= LARGEST_RATIO
        sized = view(prompt_size=5000, kind=kind)
        assert estimator.prompt_tokens("tiny", sized) <= estimator.placed_prompt_tokens("tiny", sized)
