"""Estimating the tokens of a prompt, and learning from what engines count."""

from hypothesis import given
from hypothesis import strategies as st
from routed_pools import view

from workslice_router.estimate import LARGEST_RATIO, SMALLEST_RATIO, Estimator, least_prompt_tokens
from workslice_router.usage import Usage, find_usage


def test_four_characters_are_a_token_before_anything_is_learned() -> None:
    assert Estimator().prompt_tokens("tiny", view(prompt_characters=400)) == 100


def test_spelled_out_tokens_are_exact() -> None:
    assert Estimator().prompt_tokens("tiny", view(prompt_characters=0, prompt_tokens=77)) == 77


def test_learns_each_models_own_ratio() -> None:
    estimator = Estimator()
    for _ in range(100):
        estimator.learn("dense", view(prompt_characters=1000), 500)
    assert 480 <= estimator.prompt_tokens("dense", view(prompt_characters=1000)) <= 500
    assert estimator.prompt_tokens("other", view(prompt_characters=1000)) == 250


def test_a_short_prompt_or_a_list_teaches_nothing() -> None:
    estimator = Estimator()
    estimator.learn("tiny", view(prompt_characters=10), 60)
    estimator.learn("tiny", view(prompt_characters=1000, prompts=8), 2000)
    estimator.learn("tiny", view(prompt_characters=1000, prompt_tokens=5), 2000)
    assert estimator.ratio("tiny") == 0.25


@given(st.lists(st.tuples(st.integers(200, 10**6), st.integers(0, 10**7))))
def test_no_answer_moves_the_ratio_out_of_its_bounds(answers: list[tuple[int, int]]) -> None:
    estimator = Estimator()
    for characters, tokens in answers:
        estimator.learn("tiny", view(prompt_characters=characters), tokens)
    assert SMALLEST_RATIO <= estimator.ratio("tiny") <= LARGEST_RATIO
    sized = view(prompt_characters=5000)
    assert least_prompt_tokens(sized) <= estimator.prompt_tokens("tiny", sized)


def test_finds_the_usage_of_an_answer_and_of_a_stream() -> None:
    body = (
        b'{"id":"x","usage":{"prompt_tokens":12,"total_tokens":20,"completion_tokens": 8,"prompt_tokens_details":null}}'
    )
    assert find_usage(body) == Usage(12, 8)
    assert find_usage(
        b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":6}}\n\ndata: [DONE]\n\n'
    ) == Usage(5, 6)
    assert find_usage(b'{"usage":null}') is None
    assert find_usage(b"") is None


def test_an_embedding_reports_only_its_prompt() -> None:
    assert find_usage(b'{"usage":{"prompt_tokens":12,"total_tokens":12}}') == Usage(12, 0)


def test_usage_that_a_model_wrote_as_text_is_not_usage() -> None:
    assert find_usage(b'{"text":"\\"usage\\":{\\"prompt_tokens\\":99,\\"completion_tokens\\":1}"}') is None
