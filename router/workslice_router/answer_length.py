"""How long a model's answers are: the mean for each request class, and a length that nearly all of them stay below. Pure."""

from typing import Final

from workslice_router.quantile_sketch import QuantileSketch

NEARLY_ALL: Final = 0.99
"""Share of the answers without max_tokens that must fit where such a request is placed."""
_LEARNING_RATE: Final = 0.02
_FIRST_WEIGHT: Final = 8
"""The expected length before anything is learned counts as so many answers."""
_ENOUGH_FOR_A_TAIL: Final = 100
"""With fewer answers a high quantile is only the largest of them, which may be small by chance."""
_MOST_MODELS: Final = 4096
_MOST_CLASSES: Final = 16384


class AnswerLengths:
    """Learned lengths in tokens, by the model's name at the engine."""

    def __init__(self, first: int, nearly_all: float = NEARLY_ALL) -> None:
        self._first = first
        self._nearly_all = nearly_all
        self._means: dict[tuple[str, str], tuple[float, int]] = {}
        self._unbounded: dict[str, QuantileSketch] = {}

    def expected(self, model: str, class_name: str) -> float:
        """Mean length of the class's answers."""
        known = self._means.get((model, class_name))
        return known[0] if known is not None else float(self._first)

    def longest(self, model: str) -> int:
        """A length that nearly all answers stay below whose request set no max_tokens."""
        sketch = self._unbounded.get(model)
        if sketch is None:
            return self._first
        longest = sketch.quantile(self._nearly_all)
        return longest if sketch.seen >= _ENOUGH_FOR_A_TAIL else max(longest, self._first)

    def learn(self, model: str, class_name: str, tokens: int, *, bounded: bool, cut: bool) -> None:
        """Take in an answer. `bounded`: its request set max_tokens, or something else of which others know nothing ended it. `cut`: the
        pool's context ended it, so it wanted to be longer; it counts as twice as long, and the next one goes where there is more room.
        """
        key = (model, class_name)
        mean, seen = self._means.get(key) or (float(self._first), 0)
        if not seen and len(self._means) >= _MOST_CLASSES:
            self._means.pop(next(iter(self._means)))
        rate = max(_LEARNING_RATE, 1 / (seen + _FIRST_WEIGHT))
        self._means[key] = (mean + rate * (tokens - mean), seen + 1)
        if not bounded:
            sketch = self._unbounded.get(model)
            if sketch is None:
                if len(self._unbounded) >= _MOST_MODELS:
                    self._unbounded.pop(next(iter(self._unbounded)))
                sketch = self._unbounded[model] = QuantileSketch()
            sketch.add(2 * tokens if cut else tokens)
