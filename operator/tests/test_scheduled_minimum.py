from datetime import UTC, datetime
from typing import Any

import pytest
from pool_facts import make_pool

from workslice_api.pool import ScalingMemory, ScheduledMinimum
from workslice_operator.observed import QueueSignal
from workslice_operator.scaling import ReplicaCounts, decide
from workslice_operator.scheduled_minimum import scheduled_minimum

WORKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri"]


def hours(**fields: Any) -> ScheduledMinimum:
    whole = {"days": WORKDAYS, "start": "08:00", "end": "18:00", "timeZone": "Europe/Berlin", "minReplicas": 4}
    return ScheduledMinimum.model_validate(whole | fields)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-03-02T06:59", 0),  # Monday, 07:59 in Berlin
        ("2026-03-02T07:00", 4),
        ("2026-03-02T16:59", 4),
        ("2026-03-02T17:00", 0),
        ("2026-02-28T10:00", 0),  # Saturday
        ("2026-07-06T06:00", 4),  # Monday in summer, when Berlin is two hours ahead
    ],
)
def test_hours_are_those_of_the_clock_in_their_zone(moment: str, expected: int) -> None:
    assert scheduled_minimum([hours()], at(moment)) == expected


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-03-06T21:59", 0),  # Friday
        ("2026-03-06T22:00", 4),
        ("2026-03-07T05:59", 4),  # Saturday morning belongs to Friday's night
        ("2026-03-07T06:00", 0),
        ("2026-03-07T23:00", 0),
    ],
)
def test_hours_that_end_before_they_begin_go_on_past_midnight(moment: str, expected: int) -> None:
    night = hours(days=["Fri"], start="22:00", end="06:00", timeZone="UTC")
    assert scheduled_minimum([night], at(moment)) == expected


def test_of_hours_that_overlap_the_highest_counts() -> None:
    assert scheduled_minimum([hours(), hours(minReplicas=2), hours(minReplicas=6)], at("2026-03-02T12:00")) == 6


def test_without_days_every_day_counts() -> None:
    every = ScheduledMinimum.model_validate({"start": "00:00", "end": "00:00", "minReplicas": 2})
    assert {scheduled_minimum([every], at(f"2026-03-0{day}T12:00")) for day in range(1, 8)} == {2}


def test_a_zone_that_the_image_does_not_know_counts_as_utc() -> None:
    assert scheduled_minimum([hours(timeZone="Mars/Olympus")], at("2026-03-02T08:00")) == 4
    assert scheduled_minimum([hours(timeZone="../etc/passwd")], at("2026-03-02T08:00")) == 4


SCALING = {"mode": "QueueDepth", "maxReplicas": 6, "scaleToZeroAfter": "10m", "schedule": [hours().to_wire()]}
NOBODY = QueueSignal(0, 0)


def test_a_pool_has_its_scheduled_minimum_though_nobody_asks_and_even_if_demand_is_unknown() -> None:
    spec, counts = make_pool(scaling=SCALING).spec, ReplicaCounts(1, ready=1)
    for signal in (NOBODY, None):
        assert decide(spec, ScalingMemory(desired=1), counts, signal, at("2026-03-02T12:00")).desired == 4
        assert decide(spec, ScalingMemory(desired=1), counts, signal, at("2026-03-01T12:00")).desired == 1


def test_the_maximum_bounds_the_schedule() -> None:
    spec = make_pool(scaling=SCALING | {"maxReplicas": 3}).spec
    assert decide(spec, ScalingMemory(), ReplicaCounts(1), NOBODY, at("2026-03-02T12:00")).desired == 3


def test_scheduled_hours_wake_a_pool_and_let_none_sleep() -> None:
    spec = make_pool(scaling=SCALING).spec
    asleep = ScalingMemory(asleep=True, asked=0)
    idle = ScalingMemory(desired=4, asked=0, idle_since="2026-03-02T09:00:00+00:00")
    assert decide(spec, asleep, ReplicaCounts(0, ready=0), NOBODY, at("2026-03-02T12:00")).desired == 4
    assert decide(spec, idle, ReplicaCounts(4, ready=4), NOBODY, at("2026-03-02T12:00")).desired == 4
    assert decide(spec, idle, ReplicaCounts(4, ready=4), NOBODY, at("2026-03-02T17:00")).desired == 0
