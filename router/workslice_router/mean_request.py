"""What this router's requests to a pool are like of late, learned from those that run. Pure."""

from dataclasses import dataclass
from typing import Final

FIRST_PROMPT_SHARE: Final = 0.25
"""Of the largest request of a class: a prompt, before anything is known."""
FIRST_ANSWER: Final = 256.0
_LEARNING_RATE: Final = 0.2


@dataclass(frozen=True, slots=True)
class MeanRequest:
    """One request, in tokens."""

    prompt: float
    answer: float
    size: float = 0.0
    """Both, as far as an engine holds them at once; 0 until a request has been seen."""


def first_mean_request(class_tokens: int) -> MeanRequest:
    """Of a pool whose largest request is this, before anything is known."""
    return MeanRequest(class_tokens * FIRST_PROMPT_SHARE, FIRST_ANSWER)


def mean_request(known: MeanRequest, requests: int, outstanding: float, held: float, sizes: float) -> MeanRequest:
    """After a look at so many requests, of so many tokens in all (prompts and answers), halfway through their answers, and as far as
    engines hold them.
    """
    if not requests:
        return known
    prompt = min(outstanding, max(0.0, 2 * held - outstanding)) / requests
    answer, size = outstanding / requests - prompt, sizes / requests
    return MeanRequest(
        known.prompt + _LEARNING_RATE * (prompt - known.prompt),
        known.answer + _LEARNING_RATE * (answer - known.answer),
        known.size + _LEARNING_RATE * (size - known.size) if known.size else size,
    )
