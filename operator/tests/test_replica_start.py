from dataclasses import replace
from datetime import timedelta

import pytest
from pool_facts import INSTALLATION, NOW, make_deployment, make_observed, make_pool, ready_pod

from workslice_api.conditions import find_condition
from workslice_api.names import ConditionType, Reason
from workslice_api.pool_replicas import ReplicaStart
from workslice_operator.observed import PodFacts, QueueSignal
from workslice_operator.plan import plan
from workslice_operator.replica_start import impatience, last_start, tells_more, usual_start

SLEEPY = {"mode": "QueueDepth", "maxReplicas": 2, "scaleToZeroAfter": "30m"}
SLOW = ReplicaStart(since=NOW.isoformat(), seconds=95)


def started(seconds: float, scheduled: float = 0, name: str = "a") -> PodFacts:
    at = NOW + timedelta(seconds=scheduled)
    return replace(ready_pod(name), scheduled_at=at, ready_at=at + timedelta(seconds=seconds), restarts=0)


def test_the_newest_replica_that_is_ready_tells_how_long_starts_take() -> None:
    pods = [started(40), started(95, scheduled=60, name="b")]
    assert last_start(None, pods) == ReplicaStart(since=(NOW + timedelta(seconds=60)).isoformat(), seconds=95)


def test_a_replica_tells_it_once_however_often_it_becomes_ready_again() -> None:
    first = last_start(None, [started(40)])
    assert last_start(first, [started(4000)]) == first


def test_what_is_known_stays_while_nothing_runs() -> None:
    assert last_start(SLOW, []) == SLOW


@pytest.mark.parametrize(
    "pod",
    [
        replace(started(40), restarts=1),
        replace(started(40), ready=False, ready_at=None),
        replace(started(40), deleting=True),
    ],
    ids=["restarted", "not ready", "going"],
)
def test_others_tell_nothing(pod: PodFacts) -> None:
    assert last_start(None, [pod]) is None


def test_a_pool_whose_requests_give_up_before_it_is_awake_says_so_once() -> None:
    pool = make_pool(scaling=SLEEPY, queue={"coldStartMaxWait": "60s"})
    observed = make_observed(pool, deployment=make_deployment(1), pods=(started(95),), signal=QueueSignal(0, 1))
    first = plan(observed, INSTALLATION, NOW)
    assert first.status.last_start == SLOW
    assert Reason.COLD_START_EXCEEDS_WAIT in [one.reason for one in first.events]
    said = find_condition(first.status.conditions, ConditionType.SCALING)
    assert said is not None
    assert "raise it, and what clients wait" in said.message
    known = replace(observed, pool=pool.model_copy(update={"status": first.status}))
    assert plan(known, INSTALLATION, NOW).events == ()


@pytest.mark.parametrize(
    ("scaling", "wait"),
    [(SLEEPY, "95s"), ({"mode": "QueueDepth", "maxReplicas": 2}, "60s"), ({"mode": "Fixed"}, "60s")],
)
def test_a_queue_that_waits_long_enough_or_never_for_a_start_is_not_complained_of(
    scaling: dict[str, object], wait: str
) -> None:
    spec = make_pool(scaling=scaling, queue={"coldStartMaxWait": wait}).spec
    assert impatience(spec, SLOW) == ""


def starts(*seconds: int) -> list[ReplicaStart | None]:
    return [None, *(ReplicaStart(since=NOW.isoformat(), seconds=one) for one in seconds)]


@pytest.mark.parametrize(
    ("before", "seconds", "expected"),
    [
        (None, (), None),
        (40, (), 40),
        (None, (95,), 95),
        (None, (600, 40), 40),
        (None, (40, 600, 45), 45),
        (40, (48,), 40),
        (40, (49,), 49),
        (1, (0,), 1),
    ],
    ids=[
        "nothing",
        "no pool left",
        "one",
        "of two the shorter",
        "of three the middle",
        "about right",
        "off",
        "a second",
    ],
)
def test_a_profile_takes_the_median_of_its_pools_when_what_it_knows_is_off(
    before: int | None, seconds: tuple[int, ...], expected: int | None
) -> None:
    assert usual_start(before, starts(*seconds)) == expected


@pytest.mark.parametrize(
    ("known", "seconds", "hears"),
    [(None, 95, True), (40, 95, True), (90, 95, False)],
    ids=["new", "off", "about right"],
)
def test_a_profile_hears_at_once_of_a_start_that_was_not_to_be_expected(
    known: int | None, seconds: int, hears: bool
) -> None:
    start = ReplicaStart(since=NOW.isoformat(), seconds=seconds)
    assert tells_more(known, None, start) is hears
    assert not tells_more(known, start, start)
    assert not tells_more(known, start, None)
