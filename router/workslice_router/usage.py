"""Finds the engine's token counts, and why an answer ended, in the bytes of the answer without parsing all of it."""

import re
from typing import Final, NamedTuple

# Inside a JSON string these quotes would be escaped, so text that a model or user wrote never matches.
_PROMPT: Final = re.compile(rb'"prompt_tokens"\s*:\s*(\d{1,10})')
_LENGTH: Final = re.compile(rb'"finish_reason"\s*:\s*"length"')
_ABORT: Final = re.compile(rb'"finish_reason"\s*:\s*"abort"')
_COMPLETION: Final = re.compile(rb'"completion_tokens"\s*:\s*(\d{1,10})')


class Usage(NamedTuple):
    """Tokens of a request as its engine counted them."""

    prompt_tokens: int
    completion_tokens: int


def find_usage(data: bytes) -> Usage | None:
    """The last `usage` in a JSON body, in its tail, or in the last events of a stream."""
    at = data.rfind(b'"usage"')
    prompt = _PROMPT.search(data, at) if at >= 0 else None
    if prompt is None:
        return None
    completion = _COMPLETION.search(data, at)
    return Usage(int(prompt.group(1)), int(completion.group(1)) if completion else 0)


def ended_by_length(data: bytes) -> bool:
    """Whether an answer with this tail, or a stream with these last events, ended because it may not be longer."""
    return b'"length"' in data and _LENGTH.search(data) is not None


def ended_by_abort(data: bytes) -> bool:
    """Whether the engine gave up the answer with this tail, or the stream with these last events: it is not complete."""
    return b'"abort"' in data and _ABORT.search(data) is not None
