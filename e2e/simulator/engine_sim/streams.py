"""Streams of server-sent events as vLLM writes them: one chunk for what came since the last, an error in place of the rest, [DONE]."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable

import orjson

from engine_sim import stream_chunks
from engine_sim.documents import Document, usage
from engine_sim.engine import Answer
from engine_sim.errors import EngineError
from engine_sim.prompts import shown
from engine_sim.requests import CompletionRequest
from engine_sim.tokens import decode

Events = AsyncGenerator[str, None]
Details = Callable[[Answer], Document | None]
"""What the server tells of its cache, once the answer has begun."""


async def chat_events(
    answer: Answer, head: Document, *, with_usage: bool, continuous: bool, details: Details
) -> Events:
    """The events of a chat completion."""
    said = [0] * len(answer.sequences)
    prompt = len(answer.sequences[0].prompt)
    opened = False
    try:
        async for piece in answer.pieces():
            if not opened:
                opened = True
                for index in range(len(said)):
                    chunk = stream_chunks.chat_opening(head, index)
                    if continuous:
                        chunk["usage"] = stream_chunks.chat_usage_so_far(prompt, 0)
                    yield _event(chunk)
            said[piece.index] += len(piece.tokens)
            chunk = stream_chunks.chat_chunk(head, piece.index, decode(piece.tokens), piece.finish_reason)
            if piece.finish_reason is not None and not with_usage:
                chunk["system_fingerprint"] = head["system_fingerprint"]
            if continuous:
                chunk["usage"] = stream_chunks.chat_usage_so_far(prompt, said[piece.index])
            yield _event(chunk)
        if with_usage:
            yield _event(stream_chunks.chat_usage(head, prompt, sum(said), details(answer)))
    except EngineError as error:
        yield _error(error)
    yield "data: [DONE]\n\n"


async def text_events(
    answer: Answer, head: Document, asked: CompletionRequest, *, with_usage: bool, continuous: bool, details: Details
) -> Events:
    """The events of a text completion."""
    said = [0] * len(answer.sequences)
    try:
        async for piece in answer.pieces():
            prompt = answer.sequences[piece.index].prompt
            first = not said[piece.index]
            text = shown(asked, prompt, piece.tokens, first=first)
            said[piece.index] += len(piece.tokens)
            echoed = prompt if asked.echo and first else None
            chunk = stream_chunks.text_chunk(head, piece.index, text, piece.finish_reason, echoed)
            if piece.finish_reason is not None and not with_usage:
                chunk["system_fingerprint"] = head["system_fingerprint"]
            if continuous:
                chunk["usage"] = usage(len(prompt), said[piece.index])
            yield _event(chunk)
        if with_usage:
            prompts = sum(len(sequence.prompt) for sequence in answer.sequences[:: asked.choices])
            yield _event(stream_chunks.text_usage(head, prompts, sum(said), details(answer)))
    except EngineError as error:
        yield _error(error)
    yield "data: [DONE]\n\n"


async def kept_alive(events: Events, interval: float) -> Events:
    """The events, with a comment whenever none came for `interval` seconds."""
    following = asyncio.ensure_future(anext(events))
    try:
        while True:
            done, _ = await asyncio.wait((following,), timeout=interval)
            if not done:
                yield ": keep-alive\n\n"
                continue
            try:
                event = following.result()
            except StopAsyncIteration:
                return
            following = asyncio.ensure_future(anext(events))
            yield event
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
            await following
        await events.aclose()


def _event(chunk: Document) -> str:
    return f"data: {orjson.dumps(chunk).decode()}\n\n"


def _error(error: EngineError) -> str:
    return f"data: {json.dumps(error.body)}\n\n"
