"""What a request comes to: its prompts as tokens, and the sequences that answer them. Pure."""

import json
from collections.abc import Iterator
from typing import Any

from engine_sim import generated_text
from engine_sim.errors import bad_request, no_suffix, prompt_too_long
from engine_sim.requests import ChatRequest, CompletionRequest, Message, check_sampling
from engine_sim.scheduler import Sequence
from engine_sim.settings import Settings
from engine_sim.tokens import decode, encode


def conversation(messages: list[Message], tools: list[dict[str, Any]] | None, *, opens_answer: bool) -> list[int]:
    """A conversation as tokens, as templates write it."""
    parts = [f"<|im_start|>system\n{json.dumps(tool)}<|im_end|>\n" for tool in tools or []]
    parts += [f"<|im_start|>{message.role}\n{message.text}<|im_end|>\n" for message in messages]
    if opens_answer:
        parts.append("<|im_start|>assistant\n")
    return encode("".join(parts))


def chat_prompt(request: ChatRequest, settings: Settings) -> list[int]:
    """The prompt of a chat. Raises EngineError with status 400."""
    if request.tool_choice not in (None, "none") and not settings.parses_tools:
        raise bad_request('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
    if not request.messages:
        raise bad_request("Cannot apply chat template to an empty conversation. Provide at least one message.")
    if not all(message.is_text for message in request.messages):
        raise bad_request(f"{settings.served_names[0]} is not a multimodal model")
    tools = request.tools if request.tool_choice != "none" else None
    return conversation(request.messages, tools, opens_answer=request.add_generation_prompt)


def text_prompts(request: CompletionRequest) -> list[list[int]]:
    """The prompts of a text completion. Raises EngineError with status 400."""
    if request.suffix is not None:
        raise no_suffix()
    return [encode(prompt) if isinstance(prompt, str) else prompt for prompt in request.prompts]


def check_output_limit(request: ChatRequest | CompletionRequest, context: int) -> None:
    """Refuse a request for more tokens than the context has. Raises EngineError with status 400."""
    name, wanted = output_limit(request)
    if wanted is not None and wanted > context:
        raise bad_request(
            f"{name}={wanted} cannot be greater than max_model_len={context}. Please request fewer output tokens.",
            name,
            wanted,
        )


def output_limit(request: ChatRequest | CompletionRequest) -> tuple[str, int | None]:
    """The field that bounds the answer, and its value."""
    if isinstance(request, ChatRequest) and request.max_completion_tokens is not None:
        return "max_completion_tokens", request.max_completion_tokens
    return "max_tokens", request.max_tokens


def sequences(
    request: ChatRequest | CompletionRequest,
    prompts: list[list[int]],
    settings: Settings,
    *,
    ids: Iterator[int],
    seed: int,
    priority: int,
    now: float,
) -> list[Sequence]:
    """The sequences that answer the request: `n` for each prompt. Raises EngineError with status 400.

    `seed` decides what the model says where the request does not; `now` is on the engine's clock.
    """
    made = []
    wanted = output_limit(request)[1]
    if isinstance(request, CompletionRequest) and request.only_echoes:
        wanted = 1
    for prompt in prompts:
        if not prompt:
            raise bad_request("The decoder prompt cannot be empty")
        if len(prompt) > settings.context:
            raise prompt_too_long(len(prompt), settings.context, of_text=_is_text(request))
        room = settings.context - len(prompt)
        most = room if wanted is None else min(room, wanted)
        check_sampling(request, most)
        for choice in range(request.choices):
            voice = hash((_seed(request, prompt, seed), choice))
            end = (
                None
                if request.ignore_eos
                else max(generated_text.length(voice, settings.mean_answer), request.min_tokens)
            )
            made.append(
                Sequence(
                    next(ids),
                    prompt,
                    most,
                    now,
                    generated_text.speaker(voice),
                    ends_at=end,
                    priority=priority,
                    salt=request.cache_salt or "",
                )
            )
    return made


def shown(request: CompletionRequest, prompt: list[int], tokens: list[int], *, first: bool) -> str:
    """What a text completion shows of new tokens: behind the prompt, if it wants an echo and they are the first."""
    text = "" if request.only_echoes else decode(tokens)
    return decode(prompt) + text if request.echo and first else text


def priority_of(request: ChatRequest | CompletionRequest, header: str | None) -> int:
    """The request's priority: the header wins over the body, and one that is no number is not there."""
    try:
        return request.priority if header is None else int(header)
    except ValueError:
        return request.priority


def _is_text(request: ChatRequest | CompletionRequest) -> bool:
    return isinstance(request, ChatRequest) or not isinstance(request.prompts[0], list)


def _seed(request: ChatRequest | CompletionRequest, prompt: list[int], seed: int) -> int:
    """The same for the same prompt when the request asks for that: by a seed, or by a temperature of zero."""
    if request.seed is not None:
        return hash((request.seed, tuple(prompt)))
    return hash(tuple(prompt)) if request.temperature == 0 else seed
