"""Asks the endpoint one question through the official openai client and measures the answer."""

import time
from dataclasses import dataclass
from typing import Any

from openai import OpenAI

SHORT_QUESTION = "What is the capital of France?"
LONG_QUESTION = (
    "Summarise this report in one sentence. "
    + "The weather station on the hill recorded light rain, a slow wind from the west and nothing else of note. " * 60
)


@dataclass(frozen=True)
class Answer:
    """What came back and who gave it; times in seconds."""

    text: str
    request_class: str
    pool: str
    replica: str
    streamed: bool
    first_token: float
    """Time to the first token of a streamed answer, to the whole answer otherwise."""
    total: float
    prompt_tokens: int
    completion_tokens: int
    finish_reason: str


def ask(client: OpenAI, model: str, question: str, *, stream: bool, max_tokens: int = 64, **options: Any) -> Answer:
    """Ask and return the whole answer. Raises openai.OpenAIError, also when a stream ends without a finish reason."""
    messages: Any = [{"role": "user", "content": question}]
    began = time.monotonic()
    if not stream:
        raw = client.chat.completions.with_raw_response.create(
            model=model, messages=messages, max_tokens=max_tokens, **options
        )
        body = raw.parse()
        took = time.monotonic() - began
        choice, usage = body.choices[0], body.usage
        text, finish, first = choice.message.content or "", choice.finish_reason or "", took
    else:
        streamed = client.chat.completions.with_raw_response.create(
            model=model,
            messages=messages,
            max_tokens=max_tokens,
            stream=True,
            stream_options={"include_usage": True},
            **options,
        )
        raw = streamed
        text, finish, first, usage = "", "", 0.0, None
        for chunk in streamed.parse():
            if chunk.usage is not None:
                usage = chunk.usage
            for part in chunk.choices:
                first = first or (time.monotonic() - began if part.delta.content else 0.0)
                text += part.delta.content or ""
                finish = part.finish_reason or finish
        took = time.monotonic() - began
    headers = raw.headers
    return Answer(
        text,
        headers.get("x-workslice-class", ""),
        headers.get("x-workslice-pool", ""),
        headers.get("x-workslice-replica", ""),
        stream,
        first,
        took,
        usage.prompt_tokens if usage else 0,
        usage.completion_tokens if usage else 0,
        finish,
    )


def table(rows: list[tuple[str, Answer]]) -> str:
    """Return the answers as a table for a terminal: one line each."""
    heads = ("question", "stream", "class", "pool", "replica", "first token", "total", "tokens in", "tokens out")
    lines = [heads] + [
        (
            title,
            "yes" if a.streamed else "no",
            a.request_class,
            a.pool,
            a.replica,
            f"{a.first_token * 1000:.0f} ms" if a.streamed else "-",
            f"{a.total * 1000:.0f} ms",
            str(a.prompt_tokens),
            str(a.completion_tokens),
        )
        for title, a in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )
