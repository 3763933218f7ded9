"""What a failed attempt at an engine means: whether another replica may try, and how it counts against this one."""

import errno
import re
from dataclasses import dataclass
from typing import Final

import orjson

from workslice_router.ejection import Outcome
from workslice_router.forwarded_headers import Headers

MAX_RETRIES: Final = 2
"""Further replicas that one request may try."""
RETRYABLE: Final = frozenset({Outcome.CONNECT_FAILED, Outcome.RESET, Outcome.BUSY, Outcome.DRAINING, Outcome.ABORTED})
"""Failures that another replica may heal, as long as the client has seen nothing: the engine was not there, went away before its
first byte, refused the request or gave it up, or is shutting down. An error that the engine itself answered may be the request's
fault and would only fail again elsewhere."""
ABORTED: Final = "the engine gave the request up"
# What vLLM answers (status 500, /health still 200) while it drains.
_DRAINING_MARK: Final = b"cannot schedule new futures after shutdown"
# What vLLM answers (status 500) for a moment when its core has died; not repeated elsewhere, since the request may have killed it.
_DEAD_MARK: Final = b"EngineCore encountered an issue"
# What vLLM answers (status 400) when it has counted the prompt, or has so many characters that it need not count; spaces as any JSON
# writer may put them.
_TOO_LONG_MARK: Final = re.compile(rb'"param"\s*:\s*"input_t(?:okens|ext)"')
_OWN_SHORTAGES: Final = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL, errno.EAGAIN)
)
_BAD_REQUEST: Final = 400
_SERVICE_UNAVAILABLE: Final = 503
_SERVER_ERRORS: Final = range(500, 600)
_ERRORS: Final = range(400, 600)
_BAD_GATEWAY: Final = 502
_LONGEST_MESSAGE: Final = 2000


@dataclass(frozen=True, slots=True)
class EngineError:
    """A whole response of an engine that says no."""

    status: int
    headers: Headers
    body: bytes

    @property
    def openai_body(self) -> bytes:
        """The body as OpenAI's clients understand it: vLLM's own errors are, those of its web framework are not."""
        try:
            document = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            document = self.body.decode("utf-8", "replace")
        if isinstance(document, dict) and isinstance(document.get("error"), dict):
            return self.body
        said = (document.get("error") or document.get("detail") or document) if isinstance(document, dict) else document
        text = said if isinstance(said, str) else orjson.dumps(said).decode()
        message = f"The engine answered {self.status}: {text[:_LONGEST_MESSAGE].strip() or 'nothing more'}"
        kind = "server_error" if self.status in _SERVER_ERRORS else "invalid_request_error"
        return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": self.status}})

    @property
    def outcome(self) -> Outcome:
        """How it counts; a 4xx is the client's fault, so the engine did well."""
        if self.status == _SERVICE_UNAVAILABLE:
            return Outcome.BUSY
        if self.status in _SERVER_ERRORS:
            if _DEAD_MARK in self.body:
                return Outcome.CORE_DIED
            return Outcome.DRAINING if _DRAINING_MARK in self.body else Outcome.ENGINE_ERROR
        if self.status == _BAD_REQUEST and _TOO_LONG_MARK.search(self.body):
            return Outcome.TOO_LONG
        return Outcome.OK


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt ended before the client saw anything of it."""

    outcome: Outcome
    detail: str = ""
    error: EngineError | None = None
    """What the engine answered, if it did."""
    seconds: float = 0.0
    """How long it was waited for, when that was too long."""

    @property
    def retryable(self) -> bool:
        """Another replica may try."""
        return self.outcome in RETRYABLE


def connect_failure(error: Exception) -> Failure:
    """What it means that no connection could be opened. When the router itself has run out of something, every replica would fail
    alike, and ejecting them would turn a short shortage into an outage.
    """
    number = error.errno if isinstance(error, OSError) else None
    outcome = Outcome.ROUTER_FAULT if number in _OWN_SHORTAGES else Outcome.CONNECT_FAILED
    said = error.strerror if isinstance(error, OSError) else None
    return Failure(outcome, f"cannot connect: {said or type(error).__name__}")


def error_of_event(data: bytes) -> EngineError:
    """The error response that a stream amounts to whose first event is the error object `data`."""
    try:
        document = orjson.loads(data)
        error = document.get("error")
        code = error.get("code") if isinstance(error, dict) else document.get("code")
    except (orjson.JSONDecodeError, AttributeError):
        code = None
    status = code if isinstance(code, int) and code in _ERRORS else _BAD_GATEWAY
    return EngineError(status, [(b"content-type", b"application/json")], data)
