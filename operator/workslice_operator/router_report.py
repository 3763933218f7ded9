"""What the routers' states say about each replica of a pool. Pure. What one router does not tell is unknown, never zero."""

from collections.abc import Iterable
from datetime import datetime

from workslice_api.state import ReplicaState
from workslice_operator.demand import Answer
from workslice_operator.observed import ReplicaUse, RouterReport


def router_report(answers: Iterable[Answer], pool: str, asked_at: datetime) -> RouterReport:
    """The report on a pool (namespace/name); `asked_at` is when the asking began.

    A terminating router counts until nothing listens at its address any more: its last requests are what a drain waits for.
    """
    known: list[dict[str, ReplicaState]] = []
    routers = 0
    for answer in answers:
        if answer.ended:
            continue
        routers += 1
        seen = answer.state.pools.get(pool) if answer.state and answer.state.synced else None
        if seen is not None:
            known.append({replica.uid: replica for replica in seen.replicas})
    uids = {uid for one in known for uid in one}
    return RouterReport(asked_at, routers, {uid: _use(uid, known, routers) for uid in sorted(uids)})


def _use(uid: str, known: Iterable[dict[str, ReplicaState]], routers: int) -> ReplicaUse:
    seen = [one[uid] for one in known if uid in one]
    silent = routers - len(seen)
    return ReplicaUse(
        in_flight=sum(one.in_flight for one in seen),
        outstanding_tokens=sum(one.outstanding_tokens for one in seen),
        acknowledged=silent == 0 and all(one.draining and one.in_flight == 0 for one in seen),
        silent=silent,
    )
