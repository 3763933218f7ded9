"""How many tokens a prompt has, by its characters and a ratio that is learned for each model from the engines' own counts."""

import math
from typing import Final

from workslice_router.request_body import RequestView

FIRST_RATIO: Final = 0.25
"""Tokens per character before anything is learned: English text."""
SMALLEST_RATIO: Final = 1 / 12
LARGEST_RATIO: Final = 2.0
_LEARNING_RATE: Final = 0.05
_LEAST_CHARACTERS: Final = 200
"""Shorter prompts teach nothing: the chat template outweighs their text."""
_MOST_MODELS: Final = 4096


class Estimator:
    """Learned ratios, by the model's name at the engine."""

    def __init__(self) -> None:
        self._ratios: dict[str, tuple[float, int]] = {}

    def prompt_tokens(self, model: str, view: RequestView) -> int:
        """Expected tokens of the (largest) prompt."""
        return math.ceil(view.prompt_characters * self.ratio(model)) + view.prompt_tokens

    def ratio(self, model: str) -> float:
        """Tokens per character."""
        return self._ratios.get(model, (FIRST_RATIO, 0))[0]

    def learn(self, model: str, view: RequestView, prompt_tokens: int) -> None:
        """Take in that the engine counted `prompt_tokens` for this request."""
        if view.prompts != 1 or view.prompt_tokens or view.prompt_characters < _LEAST_CHARACTERS:
            return
        ratio, seen = self._ratios.get(model, (FIRST_RATIO, 0))
        if not seen and len(self._ratios) >= _MOST_MODELS:
            self._ratios.pop(next(iter(self._ratios)))
        observed = min(LARGEST_RATIO, max(SMALLEST_RATIO, prompt_tokens / view.prompt_characters))
        rate = max(_LEARNING_RATE, 1 / (seen + 2))  # the first answers count more than the hundredth
        self._ratios[model] = (ratio + rate * (observed - ratio), seen + 1)

    def learn_least(self, model: str, view: RequestView, prompt_tokens: int) -> None:
        """Take in that the engine counted at least so many and then stopped counting."""
        if prompt_tokens > self.prompt_tokens(model, view):
            self.learn(model, view, prompt_tokens)


def least_prompt_tokens(view: RequestView) -> int:
    """Fewest tokens that the prompt can have in any tokenizer: below it nobody may be refused for size on an estimate."""
    return int(view.prompt_characters * SMALLEST_RATIO) + view.prompt_tokens
