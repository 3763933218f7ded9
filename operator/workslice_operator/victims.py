"""Which replicas go first when a pool shrinks: in the order in which a ReplicaSet deletes pods, the emptiest first among equals."""

from collections.abc import Iterable, Sequence
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


def certain_to_go(live: Iterable[PodFacts], wanted: Sequence[PodFacts]) -> tuple[PodFacts, ...]:
    """As many of `wanted` as can be removed so that the ReplicaSet has no other choice: ranks and costs, as they stand on the pods,
    put them before all others.
    """
    order = sorted(live, key=_removal_order)
    uids = {pod.uid for pod in wanted}
    certain: tuple[PodFacts, ...] = ()
    for count, pod in enumerate(order, start=1):
        if pod.uid not in uids:
            break
        if count == len(order) or _removal_order(pod) < _removal_order(order[count]):
            certain = tuple(order[:count])
    return certain


def _removal_order(pod: PodFacts) -> tuple[Rank, int]:
    return rank(pod), pod.deletion_cost
