"""What the simulated model says: words chosen by a seed, and an end chosen by the same. Pure."""

import math
import random
from collections.abc import Callable
from typing import Final

from engine_sim.tokens import encode

_WORDS: Final = """
a all and answer are as at be before best but by can carry change clear close come could day does each end even
every far few find first for form from give go good great had has have he help her here high him his how if in
into is it its just keep kind know large last late lead left less let light like line list little long look made
make many may more most move much must name near need never new next no not note now number of off old on one
only open or order other our out over own part place plan point put read real right run same say see seem set
she should show side small so some still such take tell than that the their them then there these they thing
think this those time to too two under up use very want was way we well went were what when where which while
who why will with word work world would write year you
"""
_TOKENS: Final = tuple(encode(f" {word}")[0] for word in _WORDS.split())
_MIXER: Final = 0x9E3779B97F4A7C15


def speaker(seed: int) -> Callable[[int], int]:
    """A model's voice: the token at a position, the same for the same seed."""

    def token_at(position: int) -> int:
        mixed = (seed + (position + 1) * _MIXER) & 0xFFFFFFFFFFFFFFFF
        mixed ^= mixed >> 29
        return _TOKENS[(mixed * _MIXER >> 40) % len(_TOKENS)]

    return token_at


def length(seed: int, mean: float) -> int:
    """How many tokens the answer has before its end: geometric with this mean, the same for the same seed."""
    chance = random.Random(seed).random()
    return int(math.log(1 - chance) / math.log(mean / (1 + mean)))
