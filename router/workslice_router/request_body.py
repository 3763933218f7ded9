"""Reads a request's body once into the few facts that decisions need; the bytes themselves are forwarded as they came."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jiter
import orjson

from workslice_router.json_structure import has_too_many_parts, too_many_parts
from workslice_router.openai_errors import Reason, Refused, refusal
from workslice_router.prompt_prefix import Prefix, prefix_of
from workslice_router.text_size import TextKind, text_size

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
EMBEDDINGS: Final = "/v1/embeddings"
MAX_MODEL_NAME: Final = 256
MAX_CHOICES: Final = 10_000
MAX_NUMBER: Final = 2**63 - 1
"""What engines take as max_tokens; a number of thousands of digits could not even be named in an answer."""
COMPLETION_TOKENS: Final = 16
"""Of a text completion without max_tokens, says the API; a chat without it has no bound."""
_FRAME: Final = 4


# Not frozen: that would cost as much for each field as reading one, for every request. With its own __init__ here and in other classes
# of which every request makes one: what dataclass makes is never compiled, and takes ten times as long.
@dataclass(slots=True, init=False)
class RequestView:
    """What the router knows of a request. Nobody changes it."""

    model: str
    """The name that the client asked for: a model or an alias."""
    stream: bool
    prompt_size: int
    """Text of the prompt (the largest of a list) in tokens, by weights that are the same for every model."""
    prompt_least: int
    """Fewest tokens that this text has in any tokenizer."""
    kind: TextKind
    """What most of the text is."""
    media: int
    """Images, sounds and the like in the prompt."""
    prompt_tokens: int
    """Tokens that this prompt spells out as numbers; they need no estimate."""
    prompts: int
    """Prompts in the request: 1, or the length of a list."""
    max_tokens: int | None
    """Longest answer that the request allows, in tokens; None when it sets no bound. 0 for embeddings, which have no answer."""
    choices: int
    """Answers asked for at once: `n` for each prompt."""
    include_usage: bool
    """A stream's last event will carry `usage`."""
    has_cache_salt: bool
    """The client sent a top-level `cache_salt`."""
    has_priority: bool
    """The client sent a top-level `priority`."""
    truncates_prompt: bool
    """The engine cuts the prompt before it counts it (vLLM's `truncate_prompt_tokens`)."""
    ignores_end: bool
    """The answer goes on until something cuts it (vLLM's `ignore_eos`)."""
    prefix: Prefix | None
    """How the prompt begins; None when it is short, not one text, or nobody asked."""

    def __init__(
        self,
        model: str,
        stream: bool,
        prompt_size: int,
        prompt_least: int,
        kind: TextKind,
        media: int,
        prompt_tokens: int,
        prompts: int,
        max_tokens: int | None,
        choices: int,
        include_usage: bool,
        has_cache_salt: bool,
        has_priority: bool,
        truncates_prompt: bool = False,
        ignores_end: bool = False,
        prefix: Prefix | None = None,
    ) -> None:
        self.model = model
        self.stream = stream
        self.prompt_size = prompt_size
        self.prompt_least = prompt_least
        self.kind = kind
        self.media = media
        self.prompt_tokens = prompt_tokens
        self.prompts = prompts
        self.max_tokens = max_tokens
        self.choices = choices
        self.include_usage = include_usage
        self.has_cache_salt = has_cache_salt
        self.has_priority = has_priority
        self.truncates_prompt = truncates_prompt
        self.ignores_end = ignores_end
        self.prefix = prefix


def read_request_body(body: bytes, endpoint: str, *, prefix: bool = False, counted: bool = False) -> RequestView:
    """Parse a body for one of the three endpoints; `prefix` asks how the prompt begins, and `counted` says that its parts are few.

    Raises:
        Refused: not a JSON object in UTF-8, nested deeper than 200, a duplicate key, far too many parts, or a field that decisions
            need is of the wrong type.
    """
    if not counted and has_too_many_parts(body):
        raise Refused(too_many_parts())
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
    prompt = _PROMPT_READERS[endpoint](parsed)
    text = text_size(prompt.texts)
    options = parsed.get("stream_options")
    return RequestView(
        model=model,
        stream=_boolean(parsed, "stream") and endpoint != EMBEDDINGS,
        prompt_size=round(text.tokens) + prompt.frames,
        prompt_least=text.least,
        kind=TextKind.TOOLS if prompt.mostly_tools else text.kind,
        media=prompt.media,
        prompt_tokens=prompt.tokens,
        max_tokens=_max_tokens(parsed, endpoint),
        prompts=prompt.prompts,
        choices=prompt.prompts * (_count(parsed, "n", MAX_CHOICES) or 1),
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        has_cache_salt="cache_salt" in parsed,
        has_priority="priority" in parsed,
        truncates_prompt=parsed.get("truncate_prompt_tokens") is not None,
        ignores_end=bool(parsed.get("ignore_eos")),
        prefix=prefix_of(model, prompt.texts) if prefix and prompt.prompts == 1 and not prompt.media else None,
    )


class _Prompt:
    """What of a body goes into the prompt."""

    __slots__ = ("frames", "media", "prompts", "texts", "tokens", "tool_characters")

    def __init__(self, texts: list[str], tokens: int = 0, prompts: int = 1) -> None:
        self.texts = texts
        self.tokens = tokens
        self.prompts = prompts
        self.frames = 0
        """Tokens that the chat template puts around messages."""
        self.media = 0
        self.tool_characters = 0

    @property
    def mostly_tools(self) -> bool:
        """More than half of the text describes tools."""
        return self.tool_characters > 0 and 2 * self.tool_characters > sum(map(len, self.texts))

    def add_value(self, value: Any) -> None:
        """A JSON value, which templates print into the prompt."""
        try:
            self.texts.append(orjson.dumps(value).decode())
        except TypeError:  # a number beyond 64 bits
            self.texts.append(repr(value))

    def add_part(self, part: Any) -> None:
        """One part of a message's content."""
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            self.texts.append(text)
        elif isinstance(part, dict):
            self.media += 1  # whatever its bytes


def _text_prompt(prompt: Any, name: str) -> _Prompt:
    """A string, a list of strings, a list of token numbers, or a list of such lists; of a list the largest counts."""
    if prompt is None:
        return _Prompt([])  # the engine says what is missing, in its own words
    if isinstance(prompt, str):
        return _Prompt([prompt])
    if not isinstance(prompt, list):
        raise _wrong(name, "a string, a list of strings or lists of token numbers")
    if prompt and isinstance(prompt[0], int):
        return _Prompt([], tokens=len(prompt))
    longest, tokens = "", 0
    for item in prompt:
        if isinstance(item, str):
            longest = max(longest, item, key=len)
        elif isinstance(item, list):
            tokens = max(tokens, len(item))
        else:
            raise _wrong(name, "a string, a list of strings or lists of token numbers")
    return _Prompt([longest], tokens=tokens, prompts=max(1, len(prompt)))


def _chat_prompt(parsed: Mapping[str, Any]) -> _Prompt:
    prompt = _Prompt([])
    messages = parsed.get("messages")
    if messages is None:
        return prompt  # the engine says what is missing, in its own words
    if not isinstance(messages, list):
        raise _wrong("messages", "a list")
    for message in messages:
        if not isinstance(message, dict):
            raise _wrong("messages", "a list of objects")
        content = message.get("content")
        if isinstance(content, str):
            prompt.texts.append(content)
        elif isinstance(content, list):
            for part in content:
                prompt.add_part(part)
        if message.get("tool_calls"):
            prompt.add_value(message["tool_calls"])
    prompt.frames = _FRAME * len(messages)
    for tools in ("tools", "functions"):
        if parsed.get(tools):
            prompt.add_value(parsed[tools])
            prompt.tool_characters += len(prompt.texts[-1])
    return prompt


def _completion_prompt(parsed: Mapping[str, Any]) -> _Prompt:
    prompt = _text_prompt(parsed.get("prompt"), "prompt")
    if isinstance(suffix := parsed.get("suffix"), str):
        prompt.texts.append(suffix)
    return prompt


def _embedding_prompt(parsed: Mapping[str, Any]) -> _Prompt:
    if "input" not in parsed and isinstance(parsed.get("messages"), list):
        return _chat_prompt(parsed)
    return _text_prompt(parsed.get("input"), "input")


_PROMPT_READERS: Final = {CHAT: _chat_prompt, COMPLETIONS: _completion_prompt, EMBEDDINGS: _embedding_prompt}


def _max_tokens(parsed: Mapping[str, Any], endpoint: str) -> int | None:
    if endpoint == EMBEDDINGS:
        return 0
    older = _count(parsed, "max_tokens", MAX_NUMBER)
    if endpoint == COMPLETIONS:
        return COMPLETION_TOKENS if older is None else older
    newer = _count(parsed, "max_completion_tokens", MAX_NUMBER)
    return newer if newer is not None else older


def _count(parsed: Mapping[str, Any], field: str, largest: int) -> int | None:
    value = parsed.get(field)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= largest:  # True is no number here
        raise _wrong(field, f"a whole number from 0 to {largest}")
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
