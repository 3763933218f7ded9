"""Finds the engine's token counts, and why an answer ended, in the bytes of the answer without parsing all of it."""

import re
from dataclasses import dataclass
from typing import Final

# Inside a JSON string these quotes would be escaped, so text that a model or user wrote never matches.
_PROMPT: Final = re.compile(rb'"prompt_tokens"\s*:\s*(\d{1,10})')
_LENGTH: Final = re.compile(rb'"finish_reason"\s*:\s*"length"')
_ABORT: Final = re.compile(rb'"finish_reason"\s*:\s*"abort"')
# As vLLM writes it; anything else is found by the two others.
_USUAL: Final = re.compile(
    rb'"usage"\s*:\s*\{\s*"prompt_tokens"\s*:\s*(\d{1,10})\s*,\s*"total_tokens"\s*:\s*\d{1,10}\s*,\s*"completion_tokens"\s*:\s*(\d{1,10})'
)
_COMPLETION: Final = re.compile(rb'"completion_tokens"\s*:\s*(\d{1,10})')


@dataclass(slots=True, init=False)  # see RequestView
class Usage:
    """Tokens of a request as its engine counted them. Nobody changes it."""

    prompt_tokens: int
    completion_tokens: int

    def __init__(self, prompt_tokens: int, completion_tokens: int) -> None:
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens


def find_usage(data: bytes) -> Usage | None:
    """The last `usage` in a JSON body, in its tail, or in the last events of a stream."""
    at = data.rfind(b'"usage"')
    if at < 0:
        return None
    usual = _USUAL.match(data, at)
    if usual is not None:
        return Usage(int(usual[1]), int(usual[2]))
    prompt = _PROMPT.search(data, at)
    if prompt is None:
        return None
    completion = _COMPLETION.search(data, at)
    return Usage(int(prompt.group(1)), int(completion.group(1)) if completion else 0)


# With find, since `in` on bytes makes an exception and drops it each time: it asks first whether it is given a number.
def ended_by_length(data: bytes) -> bool:
    """Whether an answer with this tail, or a stream with these last events, ended because it may not be longer."""
    return data.find(b'"length"') >= 0 and _LENGTH.search(data) is not None


def ended_by_abort(data: bytes) -> bool:
    """Whether the engine gave up the answer with this tail, or the stream with these last events: it is not complete."""
    return data.find(b'"abort"') >= 0 and _ABORT.search(data) is not None
