"""How many tokens a request has: sizes by fixed weights, times ratios that are learned from the engines' own counts. Pure."""

import math
from dataclasses import dataclass
from typing import Final

from workslice_router.answer_length import AnswerLengths
from workslice_router.request_body import RequestView
from workslice_router.text_size import TextKind

SMALLEST_RATIO: Final = 0.3
LARGEST_RATIO: Final = 4.0
FIRST_MEDIA_TOKENS: Final = 1024
"""An image or sound before anything is learned."""
_LARGEST_MEDIA_TOKENS: Final = 65_536
_LEARNING_RATE: Final = 0.02
_LEAST_TOKENS: Final = 50
"""Shorter prompts teach nothing: the chat template outweighs their text."""
_WHOLE_LESSON: Final = 1024
"""Prompts from this size on teach at the full rate, shorter ones in proportion."""
_UNSURE: Final = 8
"""So many answers are needed before their spread says anything: the first ones still move the ratio."""
_MARGIN: Final = 0.6
"""By how many standard deviations a prompt is taken to be longer than expected when it is placed: a prompt in too small a pool may be
cut short or answered twice, one in a larger pool only waits a little longer."""
_LARGEST_SPREAD: Final = 0.5
"""Once a few are known no answer counts as further from the mean than this part of it: one moves the mean by 5 % at most, from the
fiftieth on by 1 %."""
_MOST_MODELS: Final = 4096


@dataclass(slots=True)
class _Ratio:
    """Tokens that an engine counts for each one by the weights."""

    mean: float
    placed: float
    """The mean with its margin."""
    variance: float = 0.0
    """Of an observation relative to the mean."""
    lessons: int = 0


class _Model:
    """What is learned of one model."""

    __slots__ = ("kinds", "media_tokens", "overall")

    def __init__(self) -> None:
        self.overall = _Ratio(1.0, 1.0)
        self.kinds: dict[TextKind, _Ratio] = {}
        self.media_tokens = float(FIRST_MEDIA_TOKENS)

    def ratio(self, kind: TextKind) -> _Ratio:
        """For a kind that was never seen, that of all kinds together."""
        return self.kinds.get(kind, self.overall)


class Estimator:
    """Everything learned about sizes, by the model's name at the engine. `first_answer`: tokens of an answer before anything is known."""

    def __init__(self, first_answer: int = 512) -> None:
        self.answers = AnswerLengths(first_answer)
        self._models: dict[str, _Model] = {}
        self._unknown = _Model()

    def prompt_tokens(self, model: str, view: RequestView) -> int:
        """Expected tokens of the (largest) prompt."""
        return self.expected_and_placed(model, view)[0]

    def placed_prompt_tokens(self, model: str, view: RequestView) -> int:
        """The same with a margin for the spread of this kind: what a pool should have room for."""
        return self.expected_and_placed(model, view)[1]

    def expected_and_placed(self, model: str, view: RequestView) -> tuple[int, int]:
        """Both of them."""
        known = self._models.get(model, self._unknown)
        ratio, size = known.ratio(view.kind), view.prompt_size
        # What needs no ratio: tokens that the prompt spells out, and images by their learned mean.
        certain = view.prompt_tokens + (math.ceil(view.media * known.media_tokens) if view.media else 0)
        return math.ceil(size * ratio.mean) + certain, math.ceil(size * ratio.placed) + certain

    def ratio(self, model: str, kind: TextKind) -> float:
        """Tokens that the model's engines count for each one by the weights."""
        return self._models.get(model, self._unknown).ratio(kind).mean

    def learn_prompt(self, model: str, view: RequestView, counted: int) -> None:
        """Take in that the engine counted so many prompt tokens for this request."""
        if view.prompts != 1 or view.prompt_tokens or view.truncates_prompt:
            return
        known = self._models.get(model)
        if known is None:
            if len(self._models) >= _MOST_MODELS:
                self._models.pop(next(iter(self._models)))
            known = self._models[model] = _Model()
        if view.media:
            text = view.prompt_size * known.ratio(view.kind).mean
            each = min(_LARGEST_MEDIA_TOKENS, max(0.0, (counted - text) / view.media))
            known.media_tokens += _LEARNING_RATE * 5 * (each - known.media_tokens)
        elif view.prompt_size >= _LEAST_TOKENS:
            observed = min(LARGEST_RATIO, max(SMALLEST_RATIO, counted / view.prompt_size))
            weight = min(1.0, view.prompt_size / _WHOLE_LESSON)
            kind = known.kinds.get(view.kind)
            if kind is None:
                kind = known.kinds[view.kind] = _Ratio(known.overall.mean, known.overall.placed)
            for ratio in (kind, known.overall):
                _teach(ratio, observed, weight)

    def learn_least(self, model: str, view: RequestView, counted: int) -> None:
        """Take in that the engine found the prompt too long where fewer than `counted` tokens are room. Some vLLM versions set aside
        max_tokens of it first, so the prompt alone is only sure to have the rest.
        """
        least = max(1, counted - (view.max_tokens or 0))
        if least > self.prompt_tokens(model, view):
            self.learn_prompt(model, view, least)


def _teach(ratio: _Ratio, observed: float, weight: float) -> None:
    # Without min and max, which would cost more than the sums: this runs twice for every answer.
    lessons, mean = ratio.lessons, ratio.mean
    rate = 1 / (lessons + 2)  # the first answers count more than the hundredth
    if rate < _LEARNING_RATE:
        rate = _LEARNING_RATE
    rate *= weight
    error = observed / mean - 1
    if lessons >= _UNSURE:
        if error > _LARGEST_SPREAD:  # one odd request is not to be learned from much
            error = _LARGEST_SPREAD
        elif error < -_LARGEST_SPREAD:
            error = -_LARGEST_SPREAD
        ratio.variance += rate * (error * error - ratio.variance)
    ratio.mean = mean = mean * (1 + rate * error)
    ratio.placed = mean * (1 + _MARGIN * math.sqrt(ratio.variance))
    ratio.lessons = lessons + 1
