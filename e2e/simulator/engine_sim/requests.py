"""What a request may say, in vLLM's words and with vLLM's limits; what it says beyond that is ignored, as vLLM does. Pure."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from engine_sim.errors import bad_request

_INTEGER = 2**63
_SALT_LENGTH = 128
_MOST_ANSWERS: Final = 16384
_SALT_FORBIDS = frozenset("@/\\\0")

Integer = Annotated[int, Field(ge=-_INTEGER, lt=_INTEGER)]


class _Fields(BaseModel):
    model_config = ConfigDict(extra="ignore")


class StreamOptions(_Fields):
    """What a stream says beside the answer."""

    include_usage: bool | None = False
    continuous_usage_stats: bool | None = False


class _Generation(_Fields):
    """What chat and text completions share."""

    model: str | None = None
    n: int | None = 1
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    seed: Integer | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    logit_bias: dict[str, float] | None = None
    ignore_eos: bool = False
    min_tokens: int = 0
    priority: Integer = 0
    cache_salt: str | None = None
    request_id: str | None = None
    max_tokens: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_salt(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping) and (salt := fields.get("cache_salt")) is not None:
            if not isinstance(salt, str) or not salt:
                raise bad_request("Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt")
            if len(salt) > _SALT_LENGTH or _SALT_FORBIDS & set(salt):
                raise bad_request(
                    f"Parameter 'cache_salt' must be at most {_SALT_LENGTH} characters and must not contain '@', '/', "
                    "'\\\\', or NUL.",
                    "cache_salt",
                )
        return fields

    @model_validator(mode="before")
    @classmethod
    def _check_stream_options(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping) and fields.get("stream_options") and not fields.get("stream"):
            raise bad_request("Stream options can only be defined when `stream=True`.", "stream_options")
        return fields

    @property
    def wants_usage(self) -> bool:
        """The stream ends with a chunk that has the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def wants_continuous_usage(self) -> bool:
        """Every chunk has the usage so far."""
        return self.wants_usage and bool(self.stream_options and self.stream_options.continuous_usage_stats)

    @property
    def choices(self) -> int:
        """Answers wanted for each prompt."""
        return 1 if self.n is None else self.n


class Part(_Fields):
    """A part of a message."""

    type: str
    text: str = ""

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        if self.type == "text" and "text" not in self.model_fields_set:
            raise ValueError("a part of type text has no text")
        return self


class Message(_Fields):
    """One message of a conversation."""

    role: str
    content: str | list[Part] | None = None

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        if self.content is None and "content" in self.model_fields_set and self.role != "assistant":
            raise ValueError("only an assistant may say nothing")
        return self

    @property
    def text(self) -> str:
        """Its text."""
        return "\n".join(part.text for part in self.content) if isinstance(self.content, list) else self.content or ""

    @property
    def is_text(self) -> bool:
        """Whether it has nothing but text."""
        return not isinstance(self.content, list) or all(part.type in ("text", "input_text") for part in self.content)


class ChatRequest(_Generation):
    """A request for a chat completion."""

    messages: list[Message]
    max_completion_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = "none"
    add_generation_prompt: bool = True

    @model_validator(mode="before")
    @classmethod
    def _check_tools(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        if fields.get("tools") == []:
            raise bad_request(
                "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.",
                "tools",
            )
        if fields.get("tools") and "tool_choice" not in fields:
            return {**fields, "tool_choice": "auto"}
        choice = fields.get("tool_choice", "none")
        if choice in ("none", None):
            return fields
        if not fields.get("tools"):
            raise bad_request("When using `tool_choice`, `tools` must be set.", "tool_choice")
        if choice not in ("auto", "required") and not isinstance(choice, Mapping):
            raise bad_request(
                f'Invalid value for `tool_choice`: {choice}! Only named tools, "none", "auto" or "required" are supported.',
                "tool_choice",
            )
        return fields


Tokens = list[Annotated[int, Field(ge=0)]]


class CompletionRequest(_Generation):
    """A request for a text completion."""

    prompt: Tokens | list[Tokens] | str | list[str] | None = None
    n: int = 1
    max_tokens: int | None = 16
    echo: bool | None = False
    suffix: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_prompt(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        if fields.get("prompt") in (None, ""):
            raise bad_request("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
        if "max_tokens" in fields and fields["max_tokens"] is None:
            return {name: value for name, value in fields.items() if name != "max_tokens"}
        return fields

    @property
    def only_echoes(self) -> bool:
        """Nothing but the prompt is wanted back; vLLM makes one token all the same."""
        return bool(self.echo) and self.max_tokens == 0

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        """The prompts, as texts or as tokens."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if not prompt:
            raise bad_request("You must pass at least one prompt")
        return [prompt] if isinstance(prompt[0], int) else prompt


class TokenizeRequest(_Fields):
    """A question how many tokens a text or a conversation is."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_generation_prompt: bool = True
    return_token_strs: bool | None = False

    @model_validator(mode="after")
    def _check_one_given(self) -> Self:
        if self.prompt is None and self.messages is None:
            raise ValueError("prompt or messages must be given")
        return self


class DetokenizeRequest(_Fields):
    """A question for the text of tokens."""

    model: str | None = None
    tokens: list[Annotated[int, Field(ge=0, lt=_INTEGER)]]


def check_sampling(request: _Generation, max_tokens: int) -> None:
    """Check what vLLM checks when it makes sampling parameters; `max_tokens` is the bound that holds for this prompt.

    Raises EngineError with status 400.
    """
    answers = request.choices
    _check(answers >= 1, f"n must be at least 1, got {answers}.")
    _check(
        answers <= _MOST_ANSWERS,
        f"n must be at most {_MOST_ANSWERS}, got {answers}. To increase this limit, set the VLLM_MAX_N_SEQUENCES environment "
        "variable.",
    )
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(request, name)
        _check(value is None or -2 <= value <= 2, f"{name} must be in [-2, 2], got {value}.")
    _check(
        request.repetition_penalty is None or request.repetition_penalty > 0,
        f"repetition_penalty must be greater than zero, got {request.repetition_penalty}.",
    )
    temperature, top_p = request.temperature, request.top_p
    if temperature is not None:
        finite = f"temperature must be a finite number, got {temperature}."
        _check(math.isfinite(temperature), finite, "temperature", temperature)
        _check(temperature >= 0, f"temperature must be non-negative, got {temperature}.", "temperature", temperature)
        _check(temperature <= 2, f"temperature must be in [0, 2], got {temperature}.", "temperature", temperature)
    _check(top_p is None or 0 < top_p <= 1, f"top_p must be in (0, 1], got {top_p}.", "top_p", top_p)
    top_k, min_p = request.top_k, request.min_p
    _check(top_k is None or top_k >= -1, f"top_k must be 0 (disable), or at least 1, got {top_k}.")
    _check(min_p is None or 0 <= min_p <= 1, f"min_p must be in [0, 1], got {min_p}.")
    _check(max_tokens >= 1, f"max_tokens must be at least 1, got {max_tokens}.", "max_tokens", max_tokens)
    least = request.min_tokens
    _check(least >= 0, f"min_tokens must be greater than or equal to 0, got {least}.")
    _check(least <= max_tokens, f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {least}.")
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    _check(all(stops), "stop cannot contain an empty string.")
    if temperature is not None and temperature < 1e-5:
        _check(answers == 1, f"n must be 1 when using greedy sampling, got {answers}.")


def _check(holds: bool, message: str, param: str | None = None, value: object = None) -> None:
    if not holds:
        raise bad_request(message, param, value)
