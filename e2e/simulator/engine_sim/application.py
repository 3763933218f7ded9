"""The HTTP surface of vLLM's OpenAI server."""

import contextlib
import hashlib
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

import prometheus_client
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine_sim import documents, errors
from engine_sim.engine import Engine
from engine_sim.errors import EngineError
from engine_sim.faults import Faults
from engine_sim.generation import Generation, check_model, read
from engine_sim.http_metrics import CountRequests
from engine_sim.journal import Journal
from engine_sim.prompts import conversation
from engine_sim.requests import DetokenizeRequest, TokenizeRequest
from engine_sim.settings import Settings
from engine_sim.tokens import decode, encode, text_of

VERSION: Final = "0.32.0"
"""The vLLM whose behaviour this is."""
_GUARDED: Final = ("/v1", "/v2", "/inference", "/cohere")


def application(engine: Engine, settings: Settings) -> ASGIApp:
    """The application of one engine."""
    generation = Generation(engine, settings)
    created = int(time.time())

    async def health(request: Request) -> Response:
        return Response(status_code=503 if engine.dead else 200)

    async def version(request: Request) -> Response:
        return JSONResponse({"version": VERSION})

    async def load(request: Request) -> Response:
        return JSONResponse({"server_load": generation.in_flight})

    async def metrics(request: Request) -> Response:
        return Response(prometheus_client.generate_latest(), media_type=prometheus_client.CONTENT_TYPE_LATEST)

    async def models(request: Request) -> Response:
        names = settings.served_names
        permissions = [uuid.uuid4().hex for _ in names]
        return JSONResponse(documents.models(names, settings.model_path, settings.context, created, permissions))

    async def tokenize(request: Request) -> Response:
        asked = await read(request, TokenizeRequest)
        check_model(asked.model, settings)
        _refuse_while_draining(engine)
        if asked.messages is not None:
            tokens = conversation(asked.messages, None, opens_answer=asked.add_generation_prompt)
        else:
            tokens = encode(asked.prompt or "")
        strings = [text_of(token) for token in tokens] if asked.return_token_strs else None
        return JSONResponse(
            {"count": len(tokens), "max_model_len": settings.context, "tokens": tokens, "token_strs": strings}
        )

    async def detokenize(request: Request) -> Response:
        asked = await read(request, DetokenizeRequest)
        check_model(asked.model, settings)
        _refuse_while_draining(engine)
        return JSONResponse({"prompt": decode(asked.tokens)})

    async def engine_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, EngineError)
        engine.note_error_told()
        return JSONResponse(error.body, status_code=error.status)

    async def faults(request: Request) -> Response:
        if request.method == "PUT":
            try:
                engine.set_faults(Faults.model_validate_json(await request.body()))
            except ValidationError as error:
                raise errors.invalid(error) from error
        return JSONResponse(engine.faults.model_dump())

    routes = [
        _route("/health", health),
        _route("/ping", health, "GET", "POST"),
        _route("/version", version),
        _route("/load", load),
        _route("/metrics", metrics),
        _route("/v1/models", models),
        _route("/tokenize", tokenize, "POST"),
        _route("/detokenize", detokenize, "POST"),
        _route("/v1/chat/completions", generation.chat, "POST"),
        _route("/v1/completions", generation.text, "POST"),
    ]
    if settings.fault_route:
        routes.append(_route("/simulator/faults", faults, "GET", "PUT"))
    layers = [
        Middleware(CORSMiddleware, allow_methods=("*",), allow_headers=("*",)),  # from no origin, by default
        Middleware(CountRequests, routes=routes),
    ]
    if settings.tells_request_id:
        layers.insert(0, Middleware(_TellRequestId))
    if settings.api_keys:
        layers.insert(0, Middleware(_Authenticate, keys=settings.api_keys))
    if settings.tracks_load:
        layers.append(Middleware(_TrackLoad, generation=generation))
    if settings.journal is not None:
        layers.insert(0, Middleware(Journal, path=settings.journal))
    handlers = {EngineError: engine_error, HTTPException: _framework_error, Exception: _unexpected_error}
    return _NotRaising(Starlette(routes=routes, middleware=layers, exception_handlers=handlers))


def _route(path: str, endpoint: Callable[[Request], Awaitable[Response]], *methods: str) -> Route:
    route = Route(path, endpoint, methods=methods or ("GET",))
    assert route.methods is not None
    route.methods.discard("HEAD")  # vLLM's framework has no HEAD unless a route asks for it
    return route


def _refuse_while_draining(engine: Engine) -> None:
    if engine.draining:
        raise errors.Draining


async def _framework_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, status_code=error.status_code, headers=error.headers)


async def _unexpected_error(request: Request, error: Exception) -> Response:
    """Runs outside all layers, so that its answer has no headers of theirs, as vLLM's has not."""
    broken = errors.broken(str(error))
    return JSONResponse(broken.body, status_code=broken.status)


class _NotRaising:
    """Keeps from the log what the framework raises once more after it has answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(errors.Draining):
            await self._app(scope, receive, send)


class _Authenticate:
    """Lets only those in who know a key; paths outside the API stay open, as in vLLM."""

    def __init__(self, app: ASGIApp, keys: tuple[str, ...]) -> None:
        self._app = app
        self._digests = [_digest(key) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded = scope["type"] == "http" and scope["method"] != "OPTIONS" and scope["path"].startswith(_GUARDED)
        if guarded and not self._knows_key(Headers(scope=scope).get("authorization", "")):
            await JSONResponse({"error": "Unauthorized"}, status_code=401)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _knows_key(self, authorization: str) -> bool:
        scheme, _, key = authorization.partition(" ")
        digest = _digest(key)
        known = [secrets.compare_digest(digest, one) for one in self._digests]
        return scheme.lower() == "bearer" and any(known)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


class _TellRequestId:
    """Puts the request's id into the response's headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                name = Headers(scope=scope).get("x-request-id", uuid.uuid4().hex)
                MutableHeaders(raw=message["headers"]).append("X-Request-Id", name)
            await send(message)

        await self._app(scope, receive, tell if scope["type"] == "http" else send)


class _TrackLoad:
    """Counts the requests for answers that are in flight."""

    def __init__(self, app: ASGIApp, generation: Generation) -> None:
        self._app, self._generation = app, generation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        counts = scope["type"] == "http" and scope["path"] in ("/v1/chat/completions", "/v1/completions")
        self._generation.in_flight += counts
        try:
            await self._app(scope, receive, send)
        finally:
            self._generation.in_flight -= counts
