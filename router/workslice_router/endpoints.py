"""Which requests the router answers at all: an explicit list, matched byte for byte.

A path is compared as it came, never normalised: `//`, `%2e`, encoded slashes and absolute URLs match nothing, and what goes to an
engine is the constant of this table. So no spelling of a path reaches an engine's admin endpoints.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from workslice_router.openai_errors import Reason, Refused, refusal


@dataclass(frozen=True)
class Endpoint:
    """One path that clients may call."""

    path: str
    methods: tuple[bytes, ...]
    model_id: str = ""
    """The model named in the path of `/v1/models/{id}`; empty otherwise."""

    @property
    def reaches_engine(self) -> bool:
        """Whether a request goes on to an engine; else the router answers it alone."""
        return self.methods == _POST


_POST: Final = (b"POST",)
_GET: Final = (b"GET", b"HEAD")
MODELS: Final = Endpoint("/v1/models", _GET)
_EXACT: Final = {
    b"/v1/chat/completions": Endpoint("/v1/chat/completions", _POST),
    b"/v1/completions": Endpoint("/v1/completions", _POST),
    b"/v1/embeddings": Endpoint("/v1/embeddings", _POST),
    b"/v1/models": MODELS,
}
ENGINE_ENDPOINTS: Final = {path: endpoint for path, endpoint in _EXACT.items() if endpoint.reaches_engine}
"""Those whose requests go on to engines, by path."""
_MODEL_PREFIX: Final = b"/v1/models/"
_SHOWN_PATH: Final = 200


def find_endpoint(method: bytes, target: bytes) -> Endpoint:
    """The endpoint that a request line names; raises Refused with 404 or, for a known path and a wrong method, 405.

    A query string is allowed and dropped: no endpoint has parameters.
    """
    path = target
    endpoint = _EXACT.get(target)
    if endpoint is None:
        path = target.partition(b"?")[0]
        endpoint = _EXACT.get(path)
    if endpoint is None and path.startswith(_MODEL_PREFIX) and len(path) > len(_MODEL_PREFIX):
        model_id = unquote(path[len(_MODEL_PREFIX) :].decode("latin-1"), errors="replace")
        endpoint = Endpoint(MODELS.path, _GET, model_id)
    if endpoint is None:
        shown = path[:_SHOWN_PATH].decode("ascii", "backslashreplace")
        raise Refused(refusal(Reason.NOT_FOUND, method=method.decode("ascii", "replace"), path=shown))
    if method not in endpoint.methods:
        allow = ", ".join(name.decode() for name in endpoint.methods)
        raise Refused(
            refusal(
                Reason.METHOD_NOT_ALLOWED, allow=allow, method=method.decode("ascii", "replace"), path=endpoint.path
            )
        )
    return endpoint
