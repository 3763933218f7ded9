import tomllib
import zoneinfo
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pool_facts import make_pool

from workslice_api.pool import WEEKDAYS, ScalingMemory, ScheduledMinimum
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


def test_zones_are_known_even_if_the_image_has_none_of_its_own() -> None:
    zoneinfo.reset_tzpath(to=())
    try:
        assert zoneinfo.ZoneInfo.no_cache("Europe/Berlin").utcoffset(datetime(2026, 7, 1)) == timedelta(hours=2)
    finally:
        zoneinfo.reset_tzpath()
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert "tzdata" in project["optional-dependencies"]["operator"]  # what the image installs


def spans(of: ScheduledMinimum, first: str, last: str) -> list[tuple[str, str]]:
    """The whole quarters of hours, in UTC, between which the minimum holds."""
    begin, found = at(first), []
    holds = False
    while begin <= at(last):
        if (scheduled_minimum([of], begin) > 0) is not holds:
            holds = not holds
            found.append(f"{begin:%d %H:%M}")
        begin += timedelta(minutes=15)
    assert not holds
    return list(zip(found[::2], found[1::2], strict=True))


@pytest.mark.parametrize(
    ("start", "end", "spring", "autumn"),
    [
        ("22:00", "06:00", ("28 21:00", "29 04:00"), ("24 20:00", "25 05:00")),  # an hour shorter, an hour longer
        ("00:00", "00:00", ("28 23:00", "29 22:00"), ("24 22:00", "25 23:00")),
        ("01:00", "02:30", ("29 00:00", "29 01:30"), ("24 23:00", "25 01:30")),  # ends in the hour that changes
        ("02:30", "04:00", ("29 00:30", "29 02:00"), ("25 00:30", "25 03:00")),  # begins in it
        ("02:15", "02:45", ("29 00:15", "29 01:45"), ("25 00:15", "25 01:45")),
        ("08:00", "18:00", ("29 06:00", "29 16:00"), ("25 07:00", "25 17:00")),
    ],
)
def test_hours_are_one_span_when_clocks_are_changed(
    start: str, end: str, spring: tuple[str, str], autumn: tuple[str, str]
) -> None:
    begins = "Sat" if start == "22:00" else "Sun"
    night = hours(days=[begins], start=start, end=end)
    assert spans(night, "2026-03-28T12:00", "2026-03-30T12:00") == [spring]
    assert spans(night, "2026-10-24T12:00", "2026-10-26T12:00") == [autumn]


ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",
    "Africa/Cairo",
    "Australia/Lord_Howe",
    "Pacific/Apia",
]
CLOCK = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.integers(0, 59))


@given(
    days=st.sets(st.sampled_from(WEEKDAYS), min_size=1),
    start=CLOCK,
    end=CLOCK,
    zone=st.sampled_from(ZONES),
    moment=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
)
def test_on_any_day_without_a_change_of_clocks_the_clock_on_the_wall_decides(
    days: set[str], start: str, end: str, zone: str, moment: datetime
) -> None:
    there = moment.astimezone(zoneinfo.ZoneInfo(zone))
    assume(len({(there + timedelta(days=days)).utcoffset() for days in (-2, -1, 0, 1, 2)}) == 1)
    clock, day = f"{there:%H:%M}", there.weekday()
    today, yesterday = WEEKDAYS[day] in days, WEEKDAYS[day - 1] in days
    by_night = (today and clock >= start) or (yesterday and clock < end)
    shown = today and start <= clock < end if start < end else by_night
    of = hours(days=sorted(days, key=WEEKDAYS.index), start=start, end=end, timeZone=zone)
    assert (scheduled_minimum([of], moment) > 0) is shown


@given(zone=st.sampled_from(ZONES), moment=st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)))
def test_every_day_around_the_clock_is_always(zone: str, moment: datetime) -> None:
    always = hours(days=list(WEEKDAYS), start="00:00", end="00:00", timeZone=zone)
    assert scheduled_minimum([always], moment.replace(tzinfo=UTC)) == 4


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
