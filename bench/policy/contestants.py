"""The policies that are compared: what each does with eight equal slices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from baselines import Baseline
from shipped import Shipped
from simulation import Policy
from workload import LONG, SHORT, Request

from workslice_router.replica_load import FIRST_PACE, ServiceLevel

REPLICAS = 8
ROUND_ROBIN = "round robin"
LEAST_REQUESTS = "least requests"
LEAST_PREFILL = "least prefill work"
SHARED = "least prefill work, threshold"
STRICT_2, STRICT_3 = "strict split 2+6", "strict split 3+5"
WITHOUT = "Workslice without slo, 3+5"
OURS, OURS_2 = "Workslice, 3+5", "Workslice, 2+6"
TOO_FAST, TOO_SLOW = "Workslice, 3+5, guess 4 times fast", "Workslice, 3+5, guess 4 times slow"
LEVELS = {SHORT: ServiceLevel(0.5, 0.05), LONG: ServiceLevel(12.0, 0.1)}
"""What the pools say that their classes should get."""


@dataclass(frozen=True)
class Contestant:
    """A policy and the engines' flag that goes with it."""

    name: str
    policy: Callable[[int], Policy]
    """For a seed."""
    long_prefill_threshold: int = 512


def _everywhere(request: Request) -> range:
    return range(REPLICAS)


def _strict(short: int) -> Callable[[int], Policy]:
    def replicas(request: Request) -> range:
        return range(short) if request.kind == SHORT else range(short, REPLICAS)

    return lambda seed: Baseline(replicas, "prefill")


def _ours(short: int, levels: Mapping[str, ServiceLevel], error: float = 1) -> Callable[[int], Policy]:
    """`error`: how far the router's first guess of the engines' pace is off."""
    guess = replace(FIRST_PACE, tokens_per_second=FIRST_PACE.tokens_per_second * error)
    return lambda seed: Shipped(((SHORT, short), (LONG, REPLICAS - short)), levels, seed, guess)


CONTESTANTS = {
    one.name: one
    for one in (
        Contestant(ROUND_ROBIN, lambda seed: Baseline(_everywhere, "turns"), 0),
        Contestant(LEAST_REQUESTS, lambda seed: Baseline(_everywhere, "requests"), 0),
        Contestant(LEAST_PREFILL, lambda seed: Baseline(_everywhere, "prefill"), 0),
        Contestant(SHARED, lambda seed: Baseline(_everywhere, "prefill")),
        Contestant(STRICT_2, _strict(2)),
        Contestant(STRICT_3, _strict(3)),
        Contestant(WITHOUT, _ours(3, {})),
        Contestant(OURS_2, _ours(2, LEVELS)),
        Contestant(OURS, _ours(3, LEVELS)),
        Contestant(TOO_FAST, _ours(3, LEVELS, 4)),
        Contestant(TOO_SLOW, _ours(3, LEVELS, 1 / 4)),
    )
}
