"""A pool that nobody asks gives its slices back, and the first request wakes it and is answered."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from demo.pool_state import describe
from demo.waiting import NotYet, wait_until

from installed import MODEL, Installation

IDLE_SECONDS = 5
LONGEST_START_SECONDS = 180
WOKEN_SECONDS = 3
"""From the request to a status that wants replicas: routers tell the operator at once."""
BUSY_SECONDS = 4
"""More on a machine on which other tests and engines start; kubectl, which looks, takes a part of it."""


@pytest.fixture
def sleepy(pools: Installation) -> Iterator[Installation]:
    """The short pool with scaleToZeroAfter, and without it again."""
    _patch(pools, {"scaleToZeroAfter": f"{IDLE_SECONDS}s"})
    yield pools
    _patch(pools, {"scaleToZeroAfter": None})
    wait_until("the pool is awake again", lambda: _replicas(pools, 1), seconds=LONGEST_START_SECONDS)


def test_an_idle_pool_sleeps_and_the_first_requests_wake_it_and_are_answered(sleepy: Installation) -> None:
    wait_until("one ready replica", lambda: _replicas(sleepy, 1), seconds=LONGEST_START_SECONDS)
    wait_until("no replica", lambda: _replicas(sleepy, 0), seconds=60)
    asleep = _pool(sleepy)
    conditions = {one["type"]: one for one in asleep["status"]["conditions"]}
    assert conditions["EnginesReady"]["reason"] == "ScaledToZero"
    assert conditions["Ready"]["status"] == "True"

    def ask(number: int) -> str:
        answer = sleepy.client().chat.completions.create(
            model=f"{MODEL}@short",
            messages=[{"role": "user", "content": f"number {number}"}],
            max_tokens=4,
            timeout=LONGEST_START_SECONDS,
        )
        return str(answer.choices[0].finish_reason)

    with ThreadPoolExecutor(3) as threads:
        asked_at = time.monotonic()
        answers = [threads.submit(ask, number) for number in range(3)]

        def woken() -> None:
            if not _pool(sleepy)["status"].get("desiredReplicas"):
                raise NotYet("nobody has woken the pool")

        wait_until("the pool is woken", woken, seconds=30, every=0.1)
        after = time.monotonic() - asked_at
        assert [one.result(timeout=LONGEST_START_SECONDS) for one in answers] == ["length"] * 3
    print(f"woken after {after:.1f} s")
    assert after <= WOKEN_SECONDS + BUSY_SECONDS


def test_a_profile_knows_how_long_its_replicas_take_to_start(pools: Installation) -> None:
    def learned() -> int:
        seconds = pools.cluster.get("wsprof", "demo-short")["status"].get("startSeconds")
        if seconds is None:
            raise NotYet("no replica of the profile has told how long it took")
        return int(seconds)

    assert 0 <= wait_until("the profile has learned it", learned, seconds=60) <= LONGEST_START_SECONDS


def _patch(installation: Installation, scaling: dict[str, Any]) -> None:
    installation.cluster.patch("wspool", "short", "demo", {"spec": {"scaling": scaling}})


def _pool(installation: Installation) -> dict[str, Any]:
    return installation.cluster.get("wspool", "short", "demo")


def _replicas(installation: Installation, wanted: int) -> None:
    pool = _pool(installation)
    status = pool["status"]
    if not status.get("desiredReplicas", 0) == status.get("readyReplicas", 0) == status.get("replicas", 0) == wanted:
        raise NotYet(describe(pool))
