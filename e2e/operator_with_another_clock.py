"""`python operator_with_another_clock.py SECONDS FLAGS…`: the operator on a machine whose clock is ahead (or behind) by so many seconds.

Only the time of day is shifted: how long things take is measured by another clock, which runs alike everywhere.
"""

import datetime
import sys
import time


def shift(seconds: float) -> None:
    """Shift what this process takes for the time of day, before anything reads it."""
    by, of_day = datetime.timedelta(seconds=seconds), time.time

    class Shifted(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Shifted":
            return super().now(tz) + by

    datetime.datetime = Shifted  # type: ignore[misc]
    time.time = lambda: of_day() + seconds


if __name__ == "__main__":
    shift(float(sys.argv.pop(1)))
    from workslice_operator.process import main

    sys.exit(main())
