import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_sim import generated_text
from engine_sim.tokens import END_OF_TEXT, decode, encode

PROSE = "The quick brown fox jumps over the lazy dog, and nobody knows what it was thinking about. " * 20


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_tokens_spell_the_text_that_they_were_made_of(text: str) -> None:
    assert decode(encode(text)) == text


@given(st.lists(st.integers(0, 2**70)))
def test_any_numbers_have_some_text(tokens: list[int]) -> None:
    decode(tokens)


def test_the_end_of_an_answer_has_no_text() -> None:
    assert decode([END_OF_TEXT]) == ""


@pytest.mark.parametrize(
    ("text", "fewest", "most"),
    [
        (PROSE, 3.5, 5.0),
        ("def total(x_1):\n    return x_1 + 17\n" * 20, 1.8, 3.2),
        ("你好世界，今天天气很好。" * 20, 1.0, 1.0),
    ],
    ids=["prose", "code", "Chinese"],
)
def test_a_token_has_about_as_many_characters_as_with_a_real_tokenizer(text: str, fewest: float, most: float) -> None:
    assert fewest <= len(text) / len(encode(text)) <= most


def test_the_model_says_the_same_for_the_same_seed_and_something_else_for_another() -> None:
    said = [[generated_text.speaker(seed)(position) for position in range(20)] for seed in (7, 7, 8)]
    assert said[0] == said[1] != said[2]


def test_answers_end_by_themselves_after_the_mean_length_on_average() -> None:
    lengths = [generated_text.length(seed, 128.0) for seed in range(4000)]
    assert sum(lengths) / len(lengths) == pytest.approx(128, rel=0.05)
