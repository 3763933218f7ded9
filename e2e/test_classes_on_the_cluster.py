"""What pools promise the requests of their classes, on real engines. All of it is changed on running pools, which keep their engines."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from demo.example_manifests import NAMESPACE
from demo.question import SHORT_QUESTION, ask
from demo.waiting import NotYet, wait_until

from installed import MODEL, Installation
from router_accounts import router_states, wait_until_accounts_are_zero
from watched_stream import DONE, WatchedStream

LEVEL = {"timeToFirstToken": "500ms", "timePerOutputToken": "50ms"}
MIDDLING = "The wind was light and came from the west all day. " * 25
"""A prompt of a few hundred tokens."""
LESS = 32
TOKENS = 1500
"""An answer of some seconds."""
TOO_MANY = 3000
"""More than the short pool's engines hold."""


@pytest.fixture(scope="module")
def classes(pools: Installation) -> Iterator[Installation]:
    """The two pools with places for one request each; in the end they are as they were."""
    before = {name: pools.cluster.get("wspool", name, NAMESPACE)["spec"] for name in ("short", "long")}
    few = {"spillover": "Strict", "scaling": {"targetPerReplica": 100}}
    change(
        pools,
        "short",
        **few,
        requestClass={"slo": LEVEL, "maxPromptTokens": 100, "keepAlive": "1s"},
        queue={"maxInFlightPerReplica": 1},
    )
    change(
        pools,
        "long",
        **few,
        requestClass={"slo": LEVEL},
        queue={"maxInFlightPerReplica": 1, "maxDepth": 0},
        degrade={"maxTokens": LESS},
    )
    wait_for_places(pools, short=1, long=1)
    yield pools
    for name, spec in before.items():
        whole = json.dumps([{"op": "replace", "path": "/spec", "value": spec}])
        pools.cluster.kubectl("patch", "wspool", name, "-n", NAMESPACE, "--type=json", "-p", whole)
    wait_for_places(pools, short=16, long=8)


def change(installation: Installation, pool: str, **fields: Any) -> None:
    installation.cluster.patch("wspool", pool, NAMESPACE, {"spec": fields})


def wait_for_places(installation: Installation, **wanted: int) -> None:
    """Wait until every router gives the replicas of these pools so many requests at a time: then it has seen the change."""

    def seen() -> None:
        for state in router_states(installation.cluster).values():
            for pool, most in wanted.items():
                caps = {replica["dispatchCap"] for replica in state["pools"][f"{NAMESPACE}/{pool}"]["replicas"]}
                if caps != {most}:
                    raise NotYet(f"{pool}: {caps}")

    wait_until(f"places: {wanted}", seen, seconds=30, every=0.2)


def wait_until_queued(installation: Installation, count: int) -> None:
    def seen() -> None:
        states = router_states(installation.cluster).values()
        if (queued := sum(state["pools"][f"{NAMESPACE}/short"]["queued"] for state in states)) < count:
            raise NotYet(f"queued: {queued}")

    wait_until(f"{count} requests to wait", seen, seconds=30, every=0.1)


def occupied(installation: Installation, request_class: str) -> WatchedStream:
    """A stream that has a place of a class's pool for some seconds."""
    return WatchedStream(installation.url, f"{MODEL}@{request_class}", TOKENS).wait_for_start()


def test_a_prompt_that_is_too_long_for_the_small_class_belongs_to_the_large_one(classes: Installation) -> None:
    found = [ask(classes.client(), MODEL, text, stream=False, max_tokens=4) for text in (SHORT_QUESTION, MIDDLING)]
    assert [answer.request_class for answer in found] == ["short", "long"]
    assert found[1].prompt_tokens + 4 < 1024, "together with its answer it would fit"


def test_a_stream_that_waits_for_its_place_gets_comments_and_then_its_answer(classes: Installation) -> None:
    first = occupied(classes, "short")
    others = [WatchedStream(classes.url, f"{MODEL}@short", TOKENS) for _ in range(4)]
    wait_until_queued(classes, 2)
    body = {"model": MODEL, "prompt": "Count", "max_tokens": 8, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{classes.url}/completions", json=body, timeout=120, trust_env=False) as answer:
        lines = (line for line in answer.iter_lines() if line)
        assert (answer.status_code, next(lines)) == (200, ": keep-alive")
        rest = list(lines)
    assert f": x-workslice-pool: {NAMESPACE}/short" in rest, "the pool is strict, however idle the other one"
    assert rest[-1] == f"data: {DONE}"
    assert [one.ending() for one in (first, *others)] == ["done"] * 5


def test_a_request_that_finds_no_place_gets_a_shorter_answer_and_is_told_so(classes: Installation) -> None:
    running = occupied(classes, "long")
    body = {"model": MODEL, "prompt": "Count", "max_tokens": TOO_MANY, "ignore_eos": True}
    answer = httpx.post(f"{classes.url}/completions", json=body, timeout=120, trust_env=False)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-workslice-degraded"] == f"max_tokens={LESS}"
    assert answer.headers["x-workslice-pool"] == f"{NAMESPACE}/short"
    assert answer.json()["usage"]["completion_tokens"] == LESS
    assert running.ending() == "done"


def test_a_pool_that_is_full_and_soft_lets_its_requests_go_to_the_other(classes: Installation) -> None:
    change(classes, "short", spillover="Soft")
    change(classes, "long", spillover="Soft", queue={"maxInFlightPerReplica": 2})
    wait_for_places(classes, long=2)
    running = occupied(classes, "short")
    found = ask(classes.client(), MODEL, SHORT_QUESTION, stream=False, max_tokens=4)
    assert (found.request_class, found.pool) == ("short", f"{NAMESPACE}/long")
    assert running.ending() == "done"


def test_the_turns_of_a_session_stay_on_one_replica(classes: Installation) -> None:
    """Both pools serve one class here, each with a replica."""
    change(classes, "long", requestClass={"name": "short"}, queue={"maxInFlightPerReplica": 3})
    wait_for_places(classes, long=3)
    homes: dict[int, set[str]] = {}
    for turn in range(36):
        session = turn % 12
        headers = {"x-workslice-session": f"session {session}"}
        found = ask(classes.client(), MODEL, SHORT_QUESTION, stream=False, max_tokens=2, extra_headers=headers)
        homes.setdefault(session, set()).add(found.replica)
    assert [len(home) for home in homes.values()] == [1] * 12
    assert len(set.union(*homes.values())) == 2, "all sessions are on one replica"
    wait_until_accounts_are_zero(classes.cluster)
