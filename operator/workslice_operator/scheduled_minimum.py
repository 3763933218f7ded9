"""The minimum of replicas that a pool's schedule asks for at a moment. Pure.

A time of day is what a clock on the wall there shows: when clocks are put forward or back meanwhile, the hours are shorter or longer by
that. Those that begin or end at a time which is then skipped or shown twice are rather too long, and always one span: a minimum that
fell for half an hour would take replicas away and start them again.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

from workslice_api.pool import WEEKDAYS, ScheduledMinimum


def scheduled_minimum(schedule: Iterable[ScheduledMinimum], now: datetime) -> int:
    """The highest minimum whose hours `now` (with a zone) lies in; 0 outside of all."""
    return max((one.min_replicas for one in schedule if _covers(one, now)), default=0)


def _covers(hours: ScheduledMinimum, now: datetime) -> bool:
    today = now.astimezone(_zone(hours.time_zone)).date()
    return any(_covers_from(hours, today - timedelta(days=back), now) for back in (0, 1))


def _covers_from(hours: ScheduledMinimum, day: date, now: datetime) -> bool:
    """Whether the hours that begin on that day, if any do, are now."""
    if WEEKDAYS[day.weekday()] not in hours.days:
        return False
    last_day = day if hours.start < hours.end else day + timedelta(days=1)
    return min(_moments(hours, day, hours.start)) <= now < max(_moments(hours, last_day, hours.end))


def _moments(hours: ScheduledMinimum, day: date, clock: str) -> tuple[datetime, ...]:
    """When a clock there shows that time on that day: two moments if it does so twice, or skips it."""
    there = datetime.combine(day, time.fromisoformat(clock), _zone(hours.time_zone))
    return tuple(there.replace(fold=fold).astimezone(UTC) for fold in (0, 1))


@cache
def _zone(name: str) -> tzinfo:
    # The API server has refused what it does not know; a zone that is newer than this image's data must not stop the pool.
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        return UTC
