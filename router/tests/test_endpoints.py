import pytest

from workslice_router.endpoints import find_endpoint
from workslice_router.openai_errors import Reason, Refused

ENGINE_ADMIN = [
    "/sleep",
    "/wake_up",
    "/collective_rpc",
    "/metrics",
    "/health",
    "/load",
    "/v1/responses",
    "/invocations",
    "/tokenize",
]
TRICKS = [
    "//v1/chat/completions",
    "/v1//chat/completions",
    "/v1/chat/completions/",
    "/v1/chat/completions/../../../metrics",
    "/v1/./chat/completions",
    "/v1/%63hat/completions",
    "/v1%2fchat/completions",
    "/V1/chat/completions",
    "/v1/chat/completions;x",
    "/v1/chat/completions#x",
    "/v1/chat/completions%20",
    "http://router/v1/chat/completions",
    "http://engine:8000/metrics",
    "*",
    "/",
    "",
    "/v1/modelsx",
    "/v1/models/",
    "/v1/chat/completions/batch",
]


@pytest.mark.parametrize("path", ENGINE_ADMIN + TRICKS)
@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_no_other_spelling_of_a_path_is_served(path: str, method: bytes):
    with pytest.raises(Refused) as refused:
        find_endpoint(method, path.encode())
    assert refused.value.refusal.status == 404


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"])
def test_generation_is_posted_and_reaches_engines(path: str):
    endpoint = find_endpoint(b"POST", path.encode() + b"?x=/metrics")
    assert (endpoint.path, endpoint.reaches_engine) == (path, True)
    with pytest.raises(Refused) as refused:
        find_endpoint(b"GET", path.encode())
    assert refused.value.refusal.reason is Reason.METHOD_NOT_ALLOWED
    assert (b"allow", b"POST") in refused.value.refusal.headers


def test_models_are_read_and_never_reach_engines():
    for method in (b"GET", b"HEAD"):
        assert not find_endpoint(method, b"/v1/models").reaches_engine
    named = find_endpoint(b"GET", b"/v1/models/org%2Fname")
    assert (named.path, named.model_id, named.reaches_engine) == ("/v1/models", "org/name", False)
    assert find_endpoint(b"GET", b"/v1/models/org/name").model_id == "org/name"
    with pytest.raises(Refused) as refused:
        find_endpoint(b"DELETE", b"/v1/models/x")
    assert (b"allow", b"GET, HEAD") in refused.value.refusal.headers
