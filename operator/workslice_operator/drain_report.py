"""What a drain tells people: the condition Draining, Events, and when to look again. Pure."""

import math
from collections.abc import Iterator
from typing import Final

from workslice_api.names import Reason
from workslice_operator.drain import DrainPlan, Stage
from workslice_operator.finding import Finding
from workslice_operator.observed import Observed
from workslice_operator.pool_events import EventNote
from workslice_operator.scaling import Decision

LOOK_SECONDS: Final = 2.0
"""As often as routers are asked."""
_REASONS: Final = {
    Stage.ROUTERS_UNKNOWN: Reason.ROUTERS_UNKNOWN,
    Stage.ROUTERS: Reason.WAITING_FOR_ROUTERS,
    Stage.ENGINE: Reason.WAITING_FOR_ENGINE,
    Stage.IDLE: Reason.REMOVING,
    Stage.EXPIRED: Reason.REMOVING,
}
_SHOWN: Final = 5


def next_look(drain: DrainPlan) -> float:
    """Seconds; infinite when no drain waits for anything."""
    return LOOK_SECONDS if drain.marks or drain.costs or drain.leaving else math.inf


def condition(observed: Observed, drain: DrainPlan, moving: int = 0) -> Finding | None:
    """Draining while replicas are asked to go or `moving` of them are being replaced, and the word when a rollout makes them stay;
    None when there is nothing to tell.
    """
    if drain.held:
        message = "replicas that are too many go when the rollout of the engine Deployment is complete"
        return Finding(False, Reason.HELD_BY_ROLLOUT, message)
    stages = drain.stages or {}
    if not stages and moving:
        nodes = ", ".join(sorted({pod.node for pod in observed.pods if pod.live} & observed.cordoned_nodes)[:_SHOWN])
        message = (
            f"{nodes} is cordoned: {moving} more start elsewhere, then the replicas there finish their requests and go"
        )
        return Finding(True, Reason.REPLACING_CORDONED, message)
    if not stages:
        return None
    # The one that has the longest way to go speaks for all.
    worst = min(stages.values(), key=list(_REASONS).index)
    told = [f"{mark.name}: {_words(observed, mark.uid, stages[mark.uid])}" for mark in drain.marks[:_SHOWN]]
    more = f" and {len(drain.marks) - _SHOWN} more" if len(drain.marks) > _SHOWN else ""
    timeout = observed.pool.spec.drain.timeout
    return Finding(True, _REASONS[worst], f"{'; '.join(told)}{more}; for at most {timeout} (drain.timeout)")


def events(observed: Observed, decision: Decision, drain: DrainPlan) -> Iterator[EventNote]:
    """Events of what this plan begins, ends and withdraws."""
    before = {mark.uid: mark for mark in observed.pool.status.drain_marks}
    now = {mark.uid: mark for mark in drain.marks}
    live = {pod.uid for pod in observed.pods if pod.live}
    for uid, mark in now.items():
        if uid not in before:
            yield EventNote("Normal", Reason.DRAIN_STARTED, f"{mark.name} gets no new requests and finishes its own")
        elif uid in drain.leaving and (drain.stages or {}).get(uid) is Stage.EXPIRED:
            message = (
                f"{mark.name} goes although it may still have requests: drain.timeout ({observed.pool.spec.drain.timeout}) is over; "
                "raise it if requests of the class may take longer"
            )
            yield EventNote("Warning", Reason.DRAIN_TIMED_OUT, message)
    for uid, mark in before.items():
        if uid in now:
            continue
        if uid not in live:
            yield EventNote("Normal", Reason.REPLICA_GONE, f"{mark.name} has gone")
        elif decision.desired > observed.pool.status.desired_replicas:
            yield EventNote("Normal", Reason.DRAIN_CALLED_BACK, f"{mark.name} is wanted again and takes requests")
        else:
            yield EventNote("Normal", Reason.DRAIN_WITHDRAWN, f"{mark.name} stays and takes requests: {_why(drain)}")


def _why(drain: DrainPlan) -> str:
    return "a rollout has begun" if drain.held else "another replica goes or has gone in its place"


def _words(observed: Observed, uid: str, stage: Stage) -> str:
    report = observed.routers
    use = report.replicas.get(uid) if report else None
    match stage:
        case Stage.ROUTERS_UNKNOWN if report is None or not report.routers:
            return "no router can be asked what it has running there; see that routers run and that the operator reaches their admin port"
        case Stage.ROUTERS_UNKNOWN:
            silent = use.silent if use else report.routers if report else 0
            return f"{silent} of {report.routers if report else 0} routers do not say what they have running there"
        case Stage.ROUTERS if use is not None and use.in_flight:
            return f"routers have {use.in_flight} requests running there"
        case Stage.ROUTERS:
            return "routers are asked to send nothing new"
        case Stage.ENGINE if uid in observed.engines:
            return f"its engine has {observed.engines[uid].requests} requests"
        case Stage.ENGINE:
            return "its engine is asked whether it has finished"
        case Stage.IDLE:
            return "has finished and goes"
        case Stage.EXPIRED:
            return "goes, its time is over"
