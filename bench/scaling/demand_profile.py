"""The requests of a run: conversations at rates that jump, which is the hardest thing that an autoscaler meets. All from a seed."""

import random
from math import exp

from workload import SHORT, Request, lengths

RATES = (6.0, 30.0, 6.0, 18.0, 40.0, 6.0)
"""Requests a second, one after the other."""
STAGE_SECONDS = 450.0
SECONDS = STAGE_SECONDS * len(RATES)
_ESTIMATE_SPREAD = 0.065
"""As bench/classify measures it."""


def profile(seed: int) -> list[Request]:
    """The whole profile: 45 minutes."""
    return constant_stages(RATES, STAGE_SECONDS, seed)


def constant_stages(rates: tuple[float, ...], seconds: float, seed: int) -> list[Request]:
    """Poisson arrivals at each rate for so many seconds."""
    when, what = random.Random(f"scaling arrivals {seed}"), random.Random(f"scaling lengths {seed}")
    found: list[Request] = []
    for stage, rate in enumerate(rates):
        now = stage * seconds
        while (now := now + when.expovariate(rate)) < (stage + 1) * seconds:
            error = exp(what.gauss(0, _ESTIMATE_SPREAD))
            found.append(Request(len(found), SHORT, now, *lengths(SHORT, what), error))
    return found
