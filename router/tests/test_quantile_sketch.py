"""Quantiles in bounded memory."""

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from workslice_router.quantile_sketch import QuantileSketch


def sketch_of(numbers: list[int]) -> QuantileSketch:
    sketch = QuantileSketch()
    for number in numbers:
        sketch.add(number)
    return sketch


def test_nothing_added_is_zero() -> None:
    assert QuantileSketch().quantile(0.99) == 0


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=300), st.floats(0.01, 0.99))
def test_an_answer_is_at_most_a_tenth_too_large_and_never_too_small(numbers: list[int], share: float) -> None:
    exact = sorted(numbers)[max(0, math.ceil(share * len(numbers) - 1e-9) - 1)]
    assert exact <= sketch_of(numbers).quantile(share) <= exact * 1.1 + 1


def test_what_was_long_ago_fades() -> None:
    sketch = sketch_of([1000] * 20_000 + [10] * 20_000)
    assert sketch.quantile(0.9) <= 11
    assert 1000 <= sketch_of([10] * 20_000 + [1000] * 1000).quantile(0.9) <= 1100


def test_memory_is_bounded_whatever_comes() -> None:
    chance = random.Random(1)
    sketch = sketch_of([int(10 ** chance.uniform(0, 30)) for _ in range(20_000)])
    assert len(sketch._counts) <= 256
    assert sketch.seen == 20_000
