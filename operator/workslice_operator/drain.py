"""How a pool shrinks without losing a request: pure. Its memory is `status.drainMarks`, so a restart goes on where it was.

A replica that must go is marked: its UID in `status.draining` makes every router send it nothing new, and its deletion cost makes it
the one that the ReplicaSet takes. When every router has acknowledged it with nothing in flight and the engine itself has nothing
left, or `drain.timeout` is over, the Deployment may ask for one replica less. Until then it can be called back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from workslice_api.pool import MAX_DRAIN_MARKS
from workslice_api.pool_replicas import DrainMark
from workslice_api.quantity import duration_seconds
from workslice_operator.observed import Observed, PodFacts
from workslice_operator.remembered_time import not_later
from workslice_operator.rollout_facts import DeploymentFacts
from workslice_operator.surge import additional, begins
from workslice_operator.victims import certain_to_go, choose_victims

MARKED_COST: Final = -(2**31) + 1
"""Below whatever anybody else may have set."""
FINISHED_COST: Final = -(2**31)
"""Of the finished ones while others that are marked still have requests."""
_MARK_RESOLUTION: Final = timedelta(seconds=1)


class Stage(Enum):
    """How far a marked replica is."""

    ROUTERS_UNKNOWN = "routers unknown"
    """A router cannot be asked, or does not know the replica: nobody can say what runs there."""
    ROUTERS = "routers"
    """Routers still send to it or wait for its answers."""
    ENGINE = "engine"
    """The engine still has requests, or does not say."""
    IDLE = "idle"
    """Nothing is left."""
    EXPIRED = "expired"
    """`drain.timeout` is over."""


@dataclass(frozen=True)
class DeletionCost:
    """An annotation to set on a pod; `cost` None takes it away."""

    pod: str
    uid: str
    cost: int | None


@dataclass(frozen=True)
class DrainPlan:
    """What the handshake permits now."""

    replicas: int
    """What the Deployment may ask for: more than desired while replicas drain."""
    marks: tuple[DrainMark, ...] = ()
    """To be remembered; their UIDs belong into `status.draining`."""
    costs: tuple[DeletionCost, ...] = ()
    """Changes of annotations."""
    stages: Mapping[str, Stage] | None = None
    """By UID of the marked."""
    leaving: frozenset[str] = frozenset()
    """UIDs of those that this very plan lets go."""
    held: bool = False
    """Replicas are too many, but a rollout is under way: which pod a Deployment then removes is not ours to say."""


def plan_drain(observed: Observed, desired: int, template_hash: str, now: datetime) -> DrainPlan:
    """Decide for a pool that should have `desired` replicas of the pod template with that hash (empty: it stays as it is)."""
    deployment = observed.deployment
    if deployment is None:
        return DrainPlan(desired)
    live = [pod for pod in observed.pods if pod.live]
    surplus = max(deployment.replicas, len(live) - additional(observed)) - desired
    if surplus <= 0:
        return DrainPlan(desired, costs=_changes(live, _new_costs(live, (), ())))
    starts = begins(observed, template_hash)
    if desired and (starts or (deployment.settled and deployment.outdated_replicas > 0)):
        # A rollout that has failed by Kubernetes' own word must not keep a pool large for ever: preStop drains what goes.
        held = starts or not deployment.stalled
        replicas = max(desired, deployment.replicas) if held else desired
        return DrainPlan(replicas, costs=_changes(live, _new_costs(live, (), ())), held=held)
    return _shrink(observed, deployment, live, desired, surplus, now)


def engines_to_ask(observed: Observed, now: datetime) -> tuple[PodFacts, ...]:
    """Marked replicas whose routers have all finished: only now the engine's own word counts."""
    marks = {mark.uid: mark for mark in observed.pool.status.drain_marks}
    return tuple(
        pod
        for pod in observed.pods
        if pod.live and pod.address and pod.uid in marks and _stage(observed, marks[pod.uid], now) is Stage.ENGINE
    )


def _shrink(
    observed: Observed,
    deployment: DeploymentFacts,
    live: Sequence[PodFacts],
    desired: int,
    surplus: int,
    now: datetime,
) -> DrainPlan:
    # While a removal is on its way a second one could take another pod than the one it is meant for, and so could a mark.
    # Of a pool that is emptied the replica goes too that a rollout has added; which one that is nobody can say.
    extra = additional(observed) if deployment.settled else 0
    steady = deployment.settled and len(live) - extra <= deployment.replicas
    # Replicas that the Deployment asks for and that have no pod (yet) go first: there is nothing to lose.
    missing = max(0, deployment.replicas - len(live))
    known = {
        mark.uid: mark.model_copy(update={"since": not_later(mark.since, now)})
        for mark in observed.pool.status.drain_marks
    }
    chosen = [
        pod
        for pod in choose_victims(observed, min(surplus - missing + extra, MAX_DRAIN_MARKS))
        if steady or pod.uid in known or not pod.may_hold_requests
    ]
    marks = tuple(
        known.get(pod.uid) or DrainMark(name=pod.name, uid=pod.uid, since=now.isoformat())
        for pod in chosen
        if pod.may_hold_requests
    )
    stages = {mark.uid: _stage(observed, mark, now) for mark in marks}
    # A mark that is not written yet ends nothing, even if the timeout is zero.
    finished = [
        pod
        for pod in chosen
        if not pod.may_hold_requests or (pod.uid in known and stages[pod.uid] in (Stage.IDLE, Stage.EXPIRED))
    ]
    costs = _new_costs(live, chosen, {pod.uid for pod in finished})
    leaving = certain_to_go(live, finished, costs) if steady else ()
    return DrainPlan(
        replicas=max(desired, deployment.replicas - (max(0, missing + len(leaving) - extra) if steady else 0)),
        marks=marks,
        costs=_changes(live, costs),
        stages=stages,
        leaving=frozenset(pod.uid for pod in leaving),
    )


def _stage(observed: Observed, mark: DrainMark, now: datetime) -> Stage:
    since = datetime.fromisoformat(mark.since)
    if (now - since).total_seconds() >= duration_seconds(observed.pool.spec.drain.timeout):
        return Stage.EXPIRED
    report = observed.routers
    # What routers said before the mark was written may be the answer to an earlier mark.
    if report is None or report.asked_at < since + _MARK_RESOLUTION:
        return Stage.ROUTERS_UNKNOWN if report is None else Stage.ROUTERS
    use = report.replicas.get(mark.uid)
    if use is None or use.silent:
        return Stage.ROUTERS_UNKNOWN
    if not use.acknowledged:
        return Stage.ROUTERS
    load = observed.engines.get(mark.uid)
    return Stage.IDLE if load is not None and load.requests == 0 else Stage.ENGINE


def _new_costs(live: Iterable[PodFacts], chosen: Sequence[PodFacts], finished: Collection[str]) -> dict[str, int]:
    """Costs that pods should have: those of the chosen, and none of ours on others."""
    partly = 0 < len(finished) < len(chosen)
    wanted = {pod.uid: FINISHED_COST if partly and pod.uid in finished else MARKED_COST for pod in chosen}
    return {
        pod.uid: wanted.get(pod.uid, 0)
        for pod in live
        if pod.uid in wanted or pod.deletion_cost in (MARKED_COST, FINISHED_COST)
    }


def _changes(live: Iterable[PodFacts], costs: Mapping[str, int]) -> tuple[DeletionCost, ...]:
    return tuple(
        DeletionCost(pod.name, pod.uid, costs[pod.uid] or None)
        for pod in live
        if costs.get(pod.uid, pod.deletion_cost) != pod.deletion_cost
    )
