"""The routes that generate: /v1/chat/completions and /v1/completions."""

import asyncio
import itertools
import json
import random
import secrets
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from engine_sim import documents, errors, prompts
from engine_sim.documents import Document
from engine_sim.engine import Answer, Engine
from engine_sim.requests import ChatRequest, CompletionRequest
from engine_sim.settings import Settings
from engine_sim.streams import Events, chat_events, kept_alive, text_events
from engine_sim.tokens import decode

Asked = TypeVar("Asked", bound=BaseModel)
_GONE = Response(status_code=499)
"""What nobody reads."""


async def read(request: Request, kind: type[Asked]) -> Asked:
    """The request's body. Raises EngineError with status 400, and HTTPException when it is not UTF-8."""
    body = await request.body()
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise errors.not_json()
    if not body:
        raise errors.no_body()
    try:
        return kind.model_validate(json.loads(body))
    except json.JSONDecodeError as error:
        raise errors.bad_json(error.pos, error.msg) from error
    except UnicodeDecodeError as error:
        raise HTTPException(400, "There was an error parsing the body") from error
    except ValidationError as error:
        raise errors.invalid(error) from error


def check_model(name: str | None, settings: Settings) -> None:
    """Raise EngineError when another model is asked for; none at all means the served one."""
    if name and name not in settings.served_names:
        raise errors.not_served(name, settings.served_names)


class Generation:
    """Both routes, over one engine."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.in_flight = 0
        self._engine, self._settings = engine, settings
        self._ids = itertools.count()
        self._fingerprint = f"vllm-0.32.0-{uuid.uuid5(uuid.NAMESPACE_URL, settings.model_path).hex[:8]}"
        self._random = random.Random(settings.seed)

    async def chat(self, request: Request) -> Response:
        """POST /v1/chat/completions."""
        asked = await read(request, ChatRequest)
        answer = self._ask(request, asked, lambda: [prompts.chat_prompt(asked, self._settings)])
        head = self._head(request, asked, "chatcmpl")
        if asked.stream:
            return self._stream(answer, chat_events(answer, head, **self._stream_options(asked)))
        return await self._whole(request, self._whole_chat(answer, head), answer)

    async def text(self, request: Request) -> Response:
        """POST /v1/completions."""
        asked = await read(request, CompletionRequest)
        answer = self._ask(request, asked, lambda: prompts.text_prompts(asked))
        head = self._head(request, asked, "cmpl")
        if asked.stream:
            options = self._stream_options(asked)
            return self._stream(answer, text_events(answer, head, asked, **options))
        return await self._whole(request, self._whole_text(answer, head, asked), answer)

    def _ask(
        self, request: Request, asked: ChatRequest | CompletionRequest, tokenize: Callable[[], list[list[int]]]
    ) -> Answer:
        """Check everything in vLLM's order, and put the request in the queue."""
        check_model(asked.model, self._settings)
        self._engine.check_admission(asked.choices)
        prompts.check_output_limit(asked, self._settings.context)
        if self._engine.draining:
            raise errors.Draining
        return self._engine.ask(
            prompts.sequences(
                asked,
                tokenize(),
                self._settings,
                ids=self._ids,
                seed=self._random.getrandbits(63),
                priority=prompts.priority_of(asked, request.headers.get("x-vllm-priority")),
                now=asyncio.get_running_loop().time(),
            )
        )

    def _head(self, request: Request, asked: ChatRequest | CompletionRequest, prefix: str) -> Document:
        name = request.headers.get("x-request-id") or asked.request_id or secrets.token_hex(8)
        return {
            "id": f"{prefix}-{name}",
            "created": int(time.time()),
            "model": self._settings.served_names[0],
            "system_fingerprint": self._fingerprint,
        }

    def _stream_options(self, asked: ChatRequest | CompletionRequest) -> dict[str, Any]:
        forced = self._settings.forces_usage
        return {
            "with_usage": forced or asked.wants_usage,
            "continuous": forced or asked.wants_continuous_usage,
            "details": self._details_of_chat if isinstance(asked, ChatRequest) else self._details,
        }

    def _stream(self, answer: Answer, events: Events) -> Response:
        interval = self._settings.keep_alive_interval
        return _Stream(kept_alive(events, interval) if interval > 0 else events, lambda: self._engine.drop(answer))

    async def _whole(self, request: Request, work: Coroutine[Any, Any, Document], answer: Answer) -> Response:
        """Answer with a whole document, unless the client goes before it is there."""
        answering = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                return _GONE
            form = request.headers.get("endpoint-load-metrics-format", "")
            return JSONResponse(answering.result(), headers=documents.load_report(self._engine.load, form))
        finally:
            answering.cancel()
            gone.cancel()
            self._engine.drop(answer)

    async def _whole_chat(self, answer: Answer, head: Document) -> Document:
        await _finished(answer)
        texts = [decode(sequence.output) for sequence in answer.sequences]
        choices = [
            documents.chat_choice(index, text, sequence.finish_reason or "stop")
            for index, (text, sequence) in enumerate(zip(texts, answer.sequences, strict=True))
        ]
        return documents.chat_completion(head, choices, _usage(answer, 1, self._details_of_chat(answer)))

    async def _whole_text(self, answer: Answer, head: Document, asked: CompletionRequest) -> Document:
        await _finished(answer)
        texts = [prompts.shown(asked, one.prompt, one.output, first=True) for one in answer.sequences]
        choices = [
            documents.text_choice(index, text, sequence.finish_reason or "stop")
            for index, (text, sequence) in enumerate(zip(texts, answer.sequences, strict=True))
        ]
        count = len(answer.sequences) // asked.choices
        return documents.text_completion(head, choices, _usage(answer, count, self._details(answer)))

    def _details(self, answer: Answer) -> Document | None:
        """What the server tells of the cache, if it does."""
        cached = answer.sequences[0].cached_tokens or 0
        return documents.prompt_details(cached, None) if self._settings.tells_cached_tokens else None

    def _details_of_chat(self, answer: Answer) -> Document | None:
        """The same for a chat, where vLLM also tells of the blocks that the cache has from it."""
        details = self._details(answer)
        if details is None:
            return None
        block = self._settings.limits.block_size
        full = len(answer.sequences[0].prompt) // block * block
        return {**details, "created_cache_tokens": max(0, full - details["cached_tokens"])}


class _Stream(StreamingResponse):
    """A stream that does something in the end, even if its client went before the first event."""

    def __init__(self, events: Events, finally_do: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._finally_do = finally_do

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._finally_do()


def _usage(answer: Answer, prompts: int, details: Document | None) -> Document:
    answers = len(answer.sequences) // prompts
    prompt_tokens = sum(len(sequence.prompt) for sequence in answer.sequences[::answers])
    return documents.whole_usage(prompt_tokens, sum(len(sequence.output) for sequence in answer.sequences), details)


async def _finished(answer: Answer) -> None:
    async for _ in answer.pieces():
        pass


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
