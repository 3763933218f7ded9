"""Every error that the router itself makes: one table of statuses and sentences, in the shape that OpenAI clients understand."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import orjson


class Reason(StrEnum):
    """Why the router refused or gave up; sent as `code` of the body and in the header x-workslice-reason."""

    # The request as HTTP.
    MALFORMED_REQUEST = "malformed_request"
    HEADERS_TOO_LARGE = "headers_too_large"
    BODY_TOO_LARGE = "body_too_large"
    REQUEST_TIMEOUT = "request_timeout"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    EXPECTATION_FAILED = "expectation_failed"
    HTTP_VERSION = "http_version_not_supported"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    # The request as a question to a model.
    INVALID_API_KEY = "invalid_api_key"
    INVALID_JSON = "invalid_json"
    BODY_TOO_COMPLEX = "body_too_complex"
    INVALID_FIELD = "invalid_field"
    MISSING_MODEL = "missing_model"
    UNKNOWN_MODEL = "model_not_found"
    UNKNOWN_CLASS = "unknown_class"
    REQUEST_TOO_LARGE = "request_too_large"
    # No room, or nobody to serve it.
    QUEUE_FULL = "queue_full"
    QUEUE_TIMEOUT = "queue_timeout"
    WAIT_TOO_LONG = "wait_too_long"
    NO_REPLICAS = "no_replicas"
    ROUTER_BUSY = "router_busy"
    SHUTTING_DOWN = "shutting_down"
    # The engine failed.
    ENGINE_UNREACHABLE = "engine_unreachable"
    ENGINE_FAILED = "engine_failed"
    ENGINE_TIMEOUT = "engine_timeout"
    STREAM_INTERRUPTED = "stream_interrupted"
    INTERNAL_ERROR = "internal_error"


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """One row of the table: the HTTP status, OpenAI's error type, and the sentence with its blanks."""

    status: int
    type: str
    message: str


_LONGEST_BLANK: Final = 1000
_INVALID: Final = "invalid_request_error"
_AUTHENTICATION: Final = "authentication_error"
_LIMIT: Final = "rate_limit_error"
_SERVER: Final = "server_error"

ERRORS: Final[dict[Reason, ErrorKind]] = {
    Reason.MALFORMED_REQUEST: ErrorKind(400, _INVALID, "The request is not valid HTTP: {detail}."),
    Reason.HEADERS_TOO_LARGE: ErrorKind(
        431, _INVALID, "The request's headers are larger than {limit} bytes or too many: send fewer headers."
    ),
    Reason.BODY_TOO_LARGE: ErrorKind(
        413,
        _INVALID,
        "The request's body is larger than {limit} bytes: send less, or raise the router's --max-body-bytes.",
    ),
    Reason.REQUEST_TIMEOUT: ErrorKind(408, _INVALID, "The request did not arrive completely within {seconds:g} s."),
    Reason.UNSUPPORTED_ENCODING: ErrorKind(
        415, _INVALID, "Content-Encoding {encoding} is not supported: send the body uncompressed."
    ),
    Reason.EXPECTATION_FAILED: ErrorKind(417, _INVALID, "Only 'Expect: 100-continue' is supported."),
    Reason.HTTP_VERSION: ErrorKind(505, _INVALID, "Only HTTP/1.1 and HTTP/1.0 are supported."),
    Reason.NOT_FOUND: ErrorKind(
        404,
        _INVALID,
        "No such path: {path}. There are /v1/chat/completions, /v1/completions, /v1/embeddings and /v1/models.",
    ),
    Reason.METHOD_NOT_ALLOWED: ErrorKind(405, _INVALID, "{method} is not allowed for {path}: use {allow}."),
    Reason.INVALID_API_KEY: ErrorKind(
        401, _AUTHENTICATION, "{detail} Send a valid key in the header 'Authorization: Bearer KEY'."
    ),
    Reason.INVALID_JSON: ErrorKind(400, _INVALID, "The request's body is not a valid JSON object: {detail}."),
    Reason.BODY_TOO_COMPLEX: ErrorKind(
        400,
        _INVALID,
        "The request's JSON has more than {containers} objects and arrays, {strings} strings or {values} values: "
        "split it into several requests.",
    ),
    Reason.INVALID_FIELD: ErrorKind(400, _INVALID, "'{field}' must be {expected}."),
    Reason.MISSING_MODEL: ErrorKind(
        400, _INVALID, "The request names no model: set 'model' to one of the names that GET /v1/models lists."
    ),
    Reason.UNKNOWN_MODEL: ErrorKind(
        404, _INVALID, "The model '{model}' does not exist: GET /v1/models lists the models that do."
    ),
    Reason.UNKNOWN_CLASS: ErrorKind(
        400,
        _INVALID,
        "The model '{model}' has no request class '{requested}' (x-workslice-class, or model@class). It has: {classes}.",
    ),
    Reason.REQUEST_TOO_LARGE: ErrorKind(
        400,
        _INVALID,
        "The request needs at least {tokens} tokens (prompt and answer together), but {subject} holds {limit} at most: "
        "shorten the prompt or lower max_tokens.",
    ),
    Reason.QUEUE_FULL: ErrorKind(
        429,
        _LIMIT,
        "The queue of pool {pool} is full ({depth} requests wait there): retry after the time in Retry-After.",
    ),
    Reason.QUEUE_TIMEOUT: ErrorKind(
        429, _LIMIT, "No place came free in pool {pool} within {seconds:g} s: retry after the time in Retry-After."
    ),
    Reason.WAIT_TOO_LONG: ErrorKind(
        429,
        _LIMIT,
        "A place in pool {pool} is to be expected in about {seconds:g} s, later than a request may wait there ({limit:g} s): "
        "retry after the time in Retry-After.",
    ),
    Reason.NO_REPLICAS: ErrorKind(
        503,
        _SERVER,
        "No replica of model '{model}' is ready to serve this request: retry later; 'kubectl get workspacepools -A' shows why.",
    ),
    Reason.ROUTER_BUSY: ErrorKind(
        503, _SERVER, "This router holds as many bytes of requests as it may: retry after the time in Retry-After."
    ),
    Reason.SHUTTING_DOWN: ErrorKind(503, _SERVER, "This router is shutting down: retry, another one will answer."),
    Reason.ENGINE_UNREACHABLE: ErrorKind(
        503, _SERVER, "The replicas of model '{model}' that were tried cannot be reached: retry later."
    ),
    Reason.ENGINE_FAILED: ErrorKind(502, _SERVER, "The replica failed before it answered: {detail}."),
    Reason.ENGINE_TIMEOUT: ErrorKind(504, _SERVER, "The replica sent nothing of the answer for {seconds:g} s."),
    Reason.STREAM_INTERRUPTED: ErrorKind(
        502, _SERVER, "The replica failed after it had begun to answer, so the answer above is incomplete: {detail}."
    ),
    Reason.INTERNAL_ERROR: ErrorKind(500, _SERVER, "The router failed on this request; its log says more."),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error answer, ready to be framed: everything but Content-Length, Connection and x-request-id."""

    status: int
    reason: Reason
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    pool: str = ""
    """Key of the pool that has no room for the request, if that is why."""


class Refused(Exception):
    """The request ends here with this refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def refusal(
    reason: Reason, *, param: str | None = None, retry_after: float | None = None, **blanks: str | float
) -> Refusal:
    """The error answer for `reason`; `blanks` fill its sentence and `retry_after` (seconds) is rounded up to at least 1.

    Raises:
        KeyError: a blank of the sentence was not given.
    """
    kind = ERRORS[reason]
    shown = {name: _shortened(value) for name, value in blanks.items()}
    error = {"message": kind.message.format(**shown), "type": kind.type, "param": param, "code": reason.value}
    headers = [(b"content-type", b"application/json"), (b"x-workslice-reason", reason.value.encode())]
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(retry_after))))
    if reason is Reason.METHOD_NOT_ALLOWED:
        headers.append((b"allow", str(blanks["allow"]).encode()))
    if reason is Reason.INVALID_API_KEY:
        headers.append((b"www-authenticate", b"Bearer"))
    return Refusal(kind.status, reason, orjson.dumps({"error": error}), tuple(headers), str(blanks.get("pool", "")))


def _shortened(value: str | float) -> str | float:
    """What a client sent may be long; its answer need not repeat all of it."""
    return f"{value[:_LONGEST_BLANK]}…" if isinstance(value, str) and len(value) > _LONGEST_BLANK else value


def sse_error_event(body: bytes) -> bytes:
    """The error with this JSON body as one event of a stream that has already begun."""
    if b"\n" in body or b"\r" in body:  # only between its tokens: inside a string they are escaped
        body = body.replace(b"\r", b" ").replace(b"\n", b" ")
    return b"data: " + body + b"\n\n"
