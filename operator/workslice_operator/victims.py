"""Which replicas go first when a pool shrinks: in the order in which a ReplicaSet deletes pods, the emptiest first among equals."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from workslice_operator.observed import Observed, PodFacts, ReplicaUse

_PHASES: Final = {"Pending": 0, "Unknown": 1}
_RUNNING: Final = 2
_OLDEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNKNOWN: Final = ReplicaUse(in_flight=0, outstanding_tokens=0, acknowledged=False)

Rank = tuple[bool, int, bool]


def rank(pod: PodFacts) -> Rank:
    """What a ReplicaSet looks at before the deletion cost: it deletes the lowest first."""
    return pod.scheduled, _PHASES.get(pod.phase, _RUNNING), pod.ready


def choose_victims(observed: Observed, count: int) -> tuple[PodFacts, ...]:
    """The `count` live pods that should go, first ones first. Those that are asked to go already stay chosen among equals."""
    marked = {mark.uid for mark in observed.pool.status.drain_marks}
    uses = observed.routers.replicas if observed.routers else {}

    def preference(pod: PodFacts) -> tuple[Rank, bool, bool, int, int, float, str]:
        use = uses.get(pod.uid, _UNKNOWN)
        age = (pod.created_at or _OLDEST).timestamp()
        return (
            rank(pod),
            pod.node not in observed.cordoned_nodes,
            pod.uid not in marked,
            use.in_flight,
            use.outstanding_tokens,
            -age,
            pod.uid,
        )

    return tuple(sorted((pod for pod in observed.pods if pod.live), key=preference)[: max(0, count)])


def certain_to_go(
    live: Iterable[PodFacts], wanted: Iterable[PodFacts], costs: Mapping[str, int]
) -> tuple[PodFacts, ...]:
    """As many of `wanted` as can be removed so that the ReplicaSet has no other choice.

    `costs` are the deletion costs that are being written, by UID. The controller may see each pod's old one or its new one.
    """
    uids = {pod.uid for pod in wanted}

    def worst_case(pod: PodFacts) -> tuple[Rank, int]:
        seen = pod.deletion_cost, costs.get(pod.uid, pod.deletion_cost)
        return rank(pod), max(seen) if pod.uid in uids else min(seen)

    order = sorted(live, key=lambda pod: (worst_case(pod), pod.uid in uids))
    certain: tuple[PodFacts, ...] = ()
    for count, pod in enumerate(order, start=1):
        if pod.uid not in uids:
            break
        if count == len(order) or worst_case(pod) < worst_case(order[count]):
            certain = tuple(order[:count])
    return certain
