"""Reads a request's body once into the few facts that decisions need; the bytes themselves are forwarded as they came."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jiter

from workslice_router.json_structure import MOST_CONTAINERS, MOST_STRINGS, MOST_VALUES, has_too_many_parts
from workslice_router.openai_errors import Reason, Refused, refusal

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
EMBEDDINGS: Final = "/v1/embeddings"
MAX_MODEL_NAME: Final = 256
MAX_CHOICES: Final = 10_000


@dataclass(frozen=True, slots=True)
class RequestView:
    """What the router knows of a request."""

    model: str
    """The name that the client asked for: a model or an alias."""
    stream: bool
    prompt_characters: int
    """Text of the prompt (the largest of a list) in characters of plain English: a wide character (CJK) counts as four, since it
    is about a token."""
    prompt_tokens: int
    """Tokens that this prompt spells out as numbers; they need no estimate."""
    prompts: int
    """Prompts in the request: 1, or the length of a list."""
    max_tokens: int | None
    """Longest answer that the client allows, in tokens; None when it set no bound. 0 for embeddings, which have no answer."""
    choices: int
    """Answers asked for at once: `n` for each prompt."""
    include_usage: bool
    """A stream's last event will carry `usage`."""
    has_cache_salt: bool
    """The client sent a top-level `cache_salt`."""
    has_priority: bool
    """The client sent a top-level `priority`."""


def read_request_body(body: bytes, endpoint: str) -> RequestView:
    """Parse a body for one of the three endpoints.

    Raises:
        Refused: not a JSON object in UTF-8, nested deeper than 200, a duplicate key, far too many parts, or a field that decisions
            need is of the wrong type.
    """
    if has_too_many_parts(body):
        raise Refused(
            refusal(Reason.BODY_TOO_COMPLEX, containers=MOST_CONTAINERS, strings=MOST_STRINGS, values=MOST_VALUES)
        )
    try:
        parsed = jiter.from_json(body, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError as error:
        raise Refused(refusal(Reason.INVALID_JSON, detail=str(error))) from None
    if not isinstance(parsed, dict):
        raise Refused(refusal(Reason.INVALID_JSON, detail="the outermost value must be an object"))
    model = parsed.get("model")
    if model is None or model == "":
        raise Refused(refusal(Reason.MISSING_MODEL, param="model"))
    if not isinstance(model, str) or len(model) > MAX_MODEL_NAME:
        raise _wrong("model", f"a string of at most {MAX_MODEL_NAME} characters")
    size = _PROMPT_READERS[endpoint](parsed)
    options = parsed.get("stream_options")
    return RequestView(
        model=model,
        stream=_boolean(parsed, "stream") and endpoint != EMBEDDINGS,
        prompt_characters=size.characters,
        prompt_tokens=size.tokens,
        max_tokens=0 if endpoint == EMBEDDINGS else _max_tokens(parsed),
        prompts=size.prompts,
        choices=size.prompts * (_count(parsed, "n", MAX_CHOICES) or 1),
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        has_cache_salt="cache_salt" in parsed,
        has_priority="priority" in parsed,
    )


@dataclass(slots=True)
class _Size:
    characters: int = 0
    tokens: int = 0
    prompts: int = 1

    def add_value(self, value: Any) -> None:
        """Every string and key inside a JSON value, which templates print into the prompt."""
        pending = [value]
        while pending:
            item = pending.pop()
            if isinstance(item, str):
                self.characters += text_size(item)
            elif isinstance(item, dict):
                pending.extend(item.values())
                pending.extend(item)
            elif isinstance(item, list):
                pending.extend(item)
            else:
                self.characters += 4


def _prompt_size(prompt: Any, field: str) -> _Size:
    """Size of a string, a list of strings, a list of token numbers, or a list of such lists."""
    if prompt is None:
        return _Size()  # the engine says what is missing, in its own words
    if isinstance(prompt, str):
        return _Size(text_size(prompt))
    if not isinstance(prompt, list):
        raise _wrong(field, "a string, a list of strings or lists of token numbers")
    if prompt and isinstance(prompt[0], int):
        return _Size(tokens=len(prompt))
    size = _Size(prompts=max(1, len(prompt)))
    for item in prompt:
        if isinstance(item, str):
            size.characters = max(size.characters, text_size(item))
        elif isinstance(item, list):
            size.tokens = max(size.tokens, len(item))
        else:
            raise _wrong(field, "a string, a list of strings or lists of token numbers")
    return size


def text_size(text: str) -> int:
    """Characters of `text`, where characters beyond ASCII weigh by their UTF-8 length: 2.5 for Cyrillic, 4 for CJK."""
    if text.isascii():
        return len(text)
    return len(text) + (len(text.encode("utf-8", "surrogatepass")) - len(text)) * 3 // 2


def _chat_size(parsed: Mapping[str, Any]) -> _Size:
    size = _Size()
    messages = parsed.get("messages")
    if messages is None:
        return size  # the engine says what is missing, in its own words
    if not isinstance(messages, list):
        raise _wrong("messages", "a list")
    for message in messages:
        if not isinstance(message, dict):
            raise _wrong("messages", "a list of objects")
        size.characters += 16  # the template's frame around a message
        content = message.get("content")
        if isinstance(content, str):
            size.characters += text_size(content)
        elif isinstance(content, list):
            for part in content:
                _add_part(size, part)
        if message.get("tool_calls"):
            size.add_value(message["tool_calls"])
    for schema in ("tools", "functions"):
        if parsed.get(schema):
            size.add_value(parsed[schema])
    return size


def _add_part(size: _Size, part: Any) -> None:
    if isinstance(part, dict):
        text = part.get("text")
        if isinstance(text, str):
            size.characters += text_size(text)
        else:
            size.characters += 4096  # an image or sound: about a thousand tokens, whatever its bytes
    elif isinstance(part, str):
        size.characters += text_size(part)


def _completion_size(parsed: Mapping[str, Any]) -> _Size:
    size = _prompt_size(parsed.get("prompt"), "prompt")
    if isinstance(suffix := parsed.get("suffix"), str):
        size.characters += text_size(suffix)
    return size


def _embedding_size(parsed: Mapping[str, Any]) -> _Size:
    if "input" not in parsed and isinstance(parsed.get("messages"), list):
        return _chat_size(parsed)
    return _prompt_size(parsed.get("input"), "input")


_PROMPT_READERS: Final = {CHAT: _chat_size, COMPLETIONS: _completion_size, EMBEDDINGS: _embedding_size}


def _max_tokens(parsed: Mapping[str, Any]) -> int | None:
    newer = _count(parsed, "max_completion_tokens", None)
    return newer if newer is not None else _count(parsed, "max_tokens", None)


def _count(parsed: Mapping[str, Any], field: str, largest: int | None) -> int | None:
    value = parsed.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or (largest is not None and value > largest):
        bound = f" of at most {largest}" if largest is not None else ""
        raise _wrong(field, f"a whole number{bound}, not below zero")
    return value


def _boolean(parsed: Mapping[str, Any], field: str) -> bool:
    value = parsed.get(field)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _wrong(field, "true or false")
    return value


def _wrong(field: str, expected: str) -> Refused:
    return Refused(refusal(Reason.INVALID_FIELD, param=field, field=field, expected=expected))
