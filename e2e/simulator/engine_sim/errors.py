"""The errors of vLLM's server: their status, their body and the words that clients recognise them by. Pure."""

from http import HTTPStatus
from typing import Any, Final

from pydantic import ValidationError

CORE_DIED: Final = "EngineCore encountered an issue. See stack trace (above) for the root cause."
TOO_MANY_REQUESTS: Final = (
    "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."
)
TOO_MANY_TOKENS: Final = (
    "The engine has reached its prefill token backlog limit. Please try again later or on a different instance."
)
_MOST_REPORTED: Final = 10


class EngineError(Exception):
    """A request that gets an error for an answer."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param

    @property
    def body(self) -> dict[str, Any]:
        """The answer's body."""
        error = {"message": str(self), "type": self.kind, "param": self.param, "code": self.status}
        return {"error": error}


class Draining(Exception):
    """A request that comes while the engine shuts down. vLLM does not expect it: its answer has no headers but the server's own."""

    def __init__(self) -> None:
        super().__init__("cannot schedule new futures after shutdown")


def bad_request(message: str, param: str | None = None, value: object = None) -> EngineError:
    """A request that vLLM itself refuses; it puts the parameter behind the message."""
    extras = [f"{name}={given}" for name, given in (("parameter", param), ("value", value)) if given is not None]
    whole = f"{message} ({', '.join(extras)})" if extras else message
    return EngineError(HTTPStatus.BAD_REQUEST, "BadRequestError", whole, param)


def no_suffix() -> EngineError:
    """A request to fill a gap."""
    message = "suffix is only supported for models with FIM completion rendering"
    return EngineError(HTTPStatus.BAD_REQUEST, "BadRequestError", message, "suffix")


def not_served(model: str, served: tuple[str, ...]) -> EngineError:
    """A request for another model."""
    message = f"The model `{model}` does not exist. Valid aliases: {', '.join(served)}."
    return EngineError(HTTPStatus.NOT_FOUND, "NotFoundError", message, "model")


def busy(message: str) -> EngineError:
    """A request beyond a limit of the queue."""
    return EngineError(HTTPStatus.SERVICE_UNAVAILABLE, "Service Unavailable", message)


def broken(message: str) -> EngineError:
    """A request that the engine cannot answer any more."""
    return EngineError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalServerError", message)


def prompt_too_long(tokens: int, context: int, *, of_text: bool) -> EngineError:
    """A prompt that is larger than the context."""
    # vLLM stops counting a text one token behind the limit.
    counted = min(tokens, context + 1) if of_text else tokens
    least = "at least " if counted == context + 1 else ""
    return bad_request(
        f"This model's maximum context length is {context} tokens. However, your prompt contains {least}{counted} input tokens, "
        "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.",
        "input_tokens",
        counted,
    )


def not_json() -> EngineError:
    """A body of another media type."""
    text = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
    return EngineError(HTTPStatus.BAD_REQUEST, HTTPStatus.BAD_REQUEST.phrase, text)


def bad_json(position: int, reason: str) -> EngineError:
    """A body that is not JSON."""
    return _invalid([{"type": "json_invalid", "loc": ("body", position), "msg": "JSON decode error", "ctx": reason}])


def no_body() -> EngineError:
    """A request without a body."""
    return _invalid([{"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}])


def invalid(error: ValidationError) -> EngineError:
    """A body with a field that is missing or of a wrong type."""
    return _invalid(
        [
            {"type": one["type"], "loc": ("body", *one["loc"]), "msg": one["msg"], "input": str(one.get("input"))[:200]}
            for one in error.errors(include_url=False, include_context=False)
        ]
    )


def _invalid(problems: list[dict[str, Any]]) -> EngineError:
    reported = [{**one, "loc": _path(one["loc"])} for one in problems[:_MOST_REPORTED]]
    label = "error" if len(problems) == 1 else "errors"
    text = f"{len(problems)} validation {label}:\n" + "\n".join(f"  {one}" for one in reported)
    return EngineError(HTTPStatus.BAD_REQUEST, HTTPStatus.BAD_REQUEST.phrase, text, reported[0]["loc"])


def _path(place: tuple[str | int, ...]) -> str:
    """Where a field is, without the names that pydantic gives to the ways it tried to read it."""
    tried = ("str", "int", "float", "bool", "list", "dict", "none")
    return ".".join(str(part) for part in place if not (str(part) in tried or any(sign in str(part) for sign in "[({")))
