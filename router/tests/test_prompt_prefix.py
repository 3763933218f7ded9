"""Beginnings of prompts as numbers."""

import time
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from workslice_router.prompt_prefix import LENGTHS, Prefix, prefix_of

TEXT = "The quick brown fox jumps over the lazy dog. " * 4000


def hashes(text: str, model: str = "m") -> tuple[int, ...]:
    prefix = prefix_of(model, [text])
    return prefix.hashes if prefix is not None else ()


def shared(one: str, other: str) -> int:
    """Characters at the beginning of both that count as known."""
    same = sum(a == b for a, b in zip(hashes(one), hashes(other), strict=False))
    return LENGTHS[same - 1] if same else 0


def test_short_prompts_have_no_beginning_worth_a_number() -> None:
    assert prefix_of("m", [TEXT[: LENGTHS[0] - 1]]) is None
    assert prefix_of("m", []) is None
    assert hashes(TEXT[: LENGTHS[0]]) != ()


@settings(max_examples=40)
@given(st.integers(0, 40_000), st.integers(1, 5_000), st.integers(1, 5_000))
def test_what_is_shared_is_found_up_to_the_length_before_the_first_difference(at: int, one: int, other: int) -> None:
    found = shared(TEXT[:at] + "a" * one, TEXT[:at] + "b" * other)
    longest = max((length for length in LENGTHS if length <= at), default=0)
    assert found == longest


@given(st.text(min_size=1, max_size=60), st.lists(st.integers(0, 900), max_size=4))
def test_it_does_not_matter_in_how_many_pieces_a_text_comes(text: str, cuts: list[int]) -> None:
    text = (text * 900)[:900]
    edges = [0, *sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(edges)]
    assert prefix_of("m", pieces) == prefix_of("m", [text])


def test_a_model_does_not_know_what_another_has_read() -> None:
    assert not set(hashes(TEXT, "m")) & set(hashes(TEXT, "n"))


def test_a_text_of_any_length_has_few_numbers() -> None:
    prefix = prefix_of("m", [TEXT, TEXT])
    assert isinstance(prefix, Prefix)
    assert (prefix.characters, len(prefix.hashes)) == (2 * len(TEXT), len(LENGTHS))


def test_takes_a_few_microseconds() -> None:
    texts = [TEXT[:5000], TEXT[:5000]]
    best = float("inf")
    for _ in range(50):
        began = time.process_time()
        for _ in range(100):
            prefix_of("m", texts)
        best = min(best, (time.process_time() - began) / 100)
    assert best < 10e-6, "two and a half microseconds on a quiet core; the rest is for slow machines"
