"""The policies that are compared: what each does with eight equal slices."""

from collections.abc import Callable
from dataclasses import dataclass

from baselines import Baseline
from shipped import Shipped
from simulation import Policy
from workload import LONG, SHORT, Request

REPLICAS = 8
ROUND_ROBIN = "round robin"
LEAST_REQUESTS = "least requests"
LEAST_PREFILL = "least prefill work"
SHARED = "least prefill work, threshold"
STRICT_2, STRICT_3 = "strict split 2+6", "strict split 3+5"
OURS = "Workslice, 2+6"


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


CONTESTANTS = {
    one.name: one
    for one in (
        Contestant(ROUND_ROBIN, lambda seed: Baseline(_everywhere, "turns"), 0),
        Contestant(LEAST_REQUESTS, lambda seed: Baseline(_everywhere, "requests"), 0),
        Contestant(LEAST_PREFILL, lambda seed: Baseline(_everywhere, "prefill"), 0),
        Contestant(SHARED, lambda seed: Baseline(_everywhere, "prefill")),
        Contestant(STRICT_2, _strict(2)),
        Contestant(STRICT_3, _strict(3)),
        Contestant(OURS, lambda seed: Shipped(((SHORT, 2), (LONG, 6)), seed=seed)),
    )
}
