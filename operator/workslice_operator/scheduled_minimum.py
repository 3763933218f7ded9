"""The minimum of replicas that a pool's schedule asks for at a moment. Pure.

A time of day is what a clock on the wall there shows: when clocks are put forward or back the hours are shorter or longer by that.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

from workslice_api.pool import WEEKDAYS, ScheduledMinimum


def scheduled_minimum(schedule: Iterable[ScheduledMinimum], now: datetime) -> int:
    """The highest minimum whose hours `now` (with a zone) lies in; 0 outside of all."""
    return max((one.min_replicas for one in schedule if _covers(one, now)), default=0)


def _covers(hours: ScheduledMinimum, now: datetime) -> bool:
    there = now.astimezone(_zone(hours.time_zone))
    clock = f"{there:%H:%M}"
    today, yesterday = (WEEKDAYS[(there - timedelta(days=back)).weekday()] in hours.days for back in (0, 1))
    if hours.start < hours.end:
        return today and hours.start <= clock < hours.end
    return (today and clock >= hours.start) or (yesterday and clock < hours.end)


@cache
def _zone(name: str) -> tzinfo:
    # The API server has refused what it does not know; a zone that is newer than this image's data must not stop the pool.
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        return UTC
