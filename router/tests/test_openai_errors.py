"""The table of errors that the router makes."""

import json
import string

import pytest

from workslice_router.openai_errors import ERRORS, Reason, refusal, sse_error_event

BLANKS = {
    "detail": "d",
    "limit": 5,
    "seconds": 1.5,
    "encoding": "br",
    "path": "/x",
    "method": "PUT",
    "allow": "POST",
    "field": "n",
    "expected": "a number",
    "model": "m",
    "requested": "huge",
    "classes": "short, long",
    "tokens": 9,
    "subject": "model 'm'",
    "pool": "a/b",
    "depth": 3,
    "containers": 1,
    "strings": 2,
    "values": 3,
}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_makes_a_complete_openai_error(reason: Reason) -> None:
    made = refusal(reason, param="p", **BLANKS)
    error = json.loads(made.body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == reason.value
    assert "{" not in error["message"]
    assert error["message"].endswith(".")
    assert dict(made.headers)[b"x-workslice-reason"] == reason.value.encode()
    assert 400 <= made.status < 600


def test_the_blanks_of_every_sentence_are_known_here() -> None:
    used = {name for kind in ERRORS.values() for _, name, _, _ in string.Formatter().parse(kind.message) if name}
    assert used == set(BLANKS)


def test_a_forgotten_blank_is_an_error_in_the_router_not_a_half_sentence() -> None:
    with pytest.raises(KeyError):
        refusal(Reason.UNKNOWN_MODEL)


@pytest.mark.parametrize(("seconds", "header"), [(0.01, b"1"), (1.2, b"2"), (30, b"30")])
def test_retry_after_is_whole_seconds_and_never_zero(seconds: float, header: bytes) -> None:
    made = refusal(Reason.QUEUE_FULL, retry_after=seconds, pool="a/b", depth=1)
    assert dict(made.headers)[b"retry-after"] == header


def test_a_wrong_method_says_which_is_allowed() -> None:
    made = refusal(Reason.METHOD_NOT_ALLOWED, method="GET", path="/v1/completions", allow="POST")
    assert dict(made.headers)[b"allow"] == b"POST"


def test_an_error_inside_a_stream_is_one_event() -> None:
    event = sse_error_event(refusal(Reason.STREAM_INTERRUPTED, detail="connection reset").body)
    assert event.startswith(b"data: {")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 2


def test_what_a_client_sent_is_repeated_in_part_only() -> None:
    made = refusal(Reason.UNKNOWN_CLASS, model="m", requested="c" * 60_000, classes="short")
    assert len(made.body) < 1500
    assert "short" in json.loads(made.body)["error"]["message"]
