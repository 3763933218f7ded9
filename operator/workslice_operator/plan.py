"""What to do about a pool: the one decision of the operator, pure. The same input gives the same bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from workslice_api.engine_spec import EngineSpec
from workslice_api.names import ConditionType, Reason
from workslice_api.pool import SliceStatus, WorkspacePool, WorkspacePoolStatus
from workslice_api.pool_replicas import ReplicaStart
from workslice_api.profile import WorkspaceProfile
from workslice_api.quantity import duration_seconds
from workslice_api.slices import slice_resource
from workslice_operator import drain_report, pool_conditions
from workslice_operator.cache_measurement import measured_slices
from workslice_operator.cordon import replacements
from workslice_operator.drain import DeletionCost, DrainPlan, plan_drain
from workslice_operator.engine_conditions import engines_ready
from workslice_operator.finding import Finding
from workslice_operator.foreign_fields import foreign_fields
from workslice_operator.installation import Installation
from workslice_operator.next_look import next_look
from workslice_operator.observed import Observed
from workslice_operator.pause import pause_of_pool, says_paused, with_pause
from workslice_operator.pool_events import EventNote, pool_events, slice_event
from workslice_operator.profile_fit import ProfileFit, stated_fit
from workslice_operator.render.deployment import deployment
from workslice_operator.render.disruption_budget import disruption_budget
from workslice_operator.render.identity import selector_text
from workslice_operator.render.network_policy import network_policy
from workslice_operator.render.service import service
from workslice_operator.replica_start import impatience, last_start
from workslice_operator.scaling import Decision, count_replicas, decide
from workslice_operator.slice_choice import with_chosen_slice
from workslice_operator.slice_conditions import slices_granted
from workslice_operator.surge import additional, begins, surges, wanted_slice, without_previous_version
from workslice_operator.template_choice import TemplateChoice, choose_template, not_remembered, outdated, taken_back
from workslice_operator.unused_replicas import unused_replicas

RESYNC_SECONDS: Final = 300.0
"""Every pool is looked at this often even if nothing happens."""
_MAX_DRAINING: Final = 64


@dataclass(frozen=True)
class Plan:
    """What the shell carries out, in this order: mark, apply, events, status."""

    mark: tuple[DeletionCost, ...]
    """Annotations of pods to change."""
    apply: tuple[Mapping[str, Any], ...]
    """Manifests for server-side apply with FIELD_MANAGER, forced, in this order."""
    status: WorkspacePoolStatus
    """The whole new status. Anything but `queue_depth` that differs must be written at once: it holds the scaler's memory."""
    events: tuple[EventNote, ...]
    """Already reduced to changes against the pool's present status."""
    requeue_after: float
    """Seconds until the pool must be looked at again even if nothing happens."""
    template_hash: str = ""
    """Of the pod template to apply; empty when none is."""
    takes_slice: str = ""
    """Resource of which a rollout that begins here takes one more for a while; empty when it does not."""


def plan(observed: Observed, installation: Installation, now: datetime, fit: ProfileFit | None = None) -> Plan:
    """Decide. `now` is timezone-aware; `fit` is what the profile states (profile_fit.stated_fit), worked out here if it is not given."""
    pause = pause_of_pool(observed.pool, observed.profile)
    if pause is not None:
        return _held(observed, pause, now)
    startup_timeout = _startup_timeout(observed.profile)
    if fit is None and observed.profile is not None:
        fit = stated_fit(observed.profile, observed.inventory)
    profile = pool_conditions.profile_ready(observed, fit)
    decision = _decision(observed, profile, startup_timeout, now)
    observed, why = with_chosen_slice(observed, decision.desired, fit)
    # A replica that a rollout adds stands in for one that goes, wherever that is; and none starts where nothing may be changed.
    moving = max(0, replacements(observed, decision.desired) - additional(observed)) if profile.status else 0
    asleep = decision.reason is Reason.SCALED_TO_ZERO
    engines = engines_ready(observed, decision.desired, startup_timeout, now, asleep)
    tried = without_previous_version(observed)
    verdict = engines if tried is observed else engines_ready(tried, decision.desired, startup_timeout, now, asleep)
    choice = choose_template(observed, observed.profile, verdict) if profile.status and observed.profile else None
    template_hash = choice.record.hash if choice else ""
    drain = plan_drain(observed, decision.desired + moving, template_hash, now)
    surge = surges(observed, template_hash, drain.replicas, moving, now)
    manifests = _manifests(observed, choice, installation, drain.replicas, surge)
    start = last_start(observed.pool.status.last_start, observed.pods)
    remarks = unused_replicas(observed.pool.spec), impatience(observed.pool.spec, start)
    findings = _findings(observed, profile, engines, decision, drain, moving, manifests, choice, remarks)
    status = _status(observed, decision, drain, findings, why, start, now)
    notes = pool_events(observed.pool.status, status.conditions, decision, *remarks)
    waits = (RESYNC_SECONDS, next_look(observed, decision, startup_timeout, now), drain_report.next_look(drain))
    return Plan(
        mark=drain.costs,
        apply=manifests,
        status=status,
        events=(
            *notes,
            *slice_event(observed.pool.status.slices, status.slices),
            *drain_report.events(observed, decision, drain),
        ),
        requeue_after=min(waits),
        template_hash=template_hash if manifests else "",
        takes_slice=wanted_slice(observed) if surge and begins(observed, template_hash) else "",
    )


def _held(observed: Observed, pause: Finding, now: datetime) -> Plan:
    """Nothing but the word that nothing is done: the status stays as it was, the memory of drains and scaling in it too."""
    before = observed.pool.status
    conditions = with_pause(before.conditions, pause, observed.pool.metadata.generation, now)
    known = says_paused(before.conditions)
    notes = () if known else (EventNote("Normal", pause.reason, pause.message),)
    return Plan((), (), before.model_copy(update={"conditions": conditions}), notes, RESYNC_SECONDS)


def plan_after_failed_apply(planned: Plan, observed: Observed, message: str, now: datetime) -> Plan:
    """The plan as it ends when the API refused one of its manifests: Degraded with the API's message, and an Event of it."""
    refusal = Finding(
        True, Reason.APPLY_FAILED, f"{message}; correct what it names in the pool, its profile or the namespace"
    )
    previous = observed.pool.status
    conditions = pool_conditions.replaced(
        planned.status.conditions,
        previous.conditions,
        ConditionType.DEGRADED,
        refusal,
        planned.status.observed_generation,
        now,
    )
    known = any(one.type == ConditionType.DEGRADED and one.reason == refusal.reason for one in previous.conditions)
    notes = () if known else (EventNote("Warning", refusal.reason, refusal.message),)
    return replace(
        planned,
        status=planned.status.model_copy(update={"conditions": conditions}),
        events=(*planned.events, *notes),
    )


def _startup_timeout(profile: WorkspaceProfile | None) -> float:
    engine = profile.spec.engine if profile else EngineSpec()
    return duration_seconds(engine.startup_timeout)


def _decision(observed: Observed, profile: Finding, startup_timeout: float, now: datetime) -> Decision:
    memory = observed.pool.status.scaling
    if observed.conflict is not None:
        return Decision(0, Reason.MODEL_OWNED_ELSEWHERE, "a pool in Conflict runs no replicas", memory)
    current = observed.deployment.replicas if observed.deployment else None
    if not profile.status:
        message = "the number of replicas stays as it is until ProfileReady is True"
        return Decision(current or 0, profile.reason, message, memory)
    counts = count_replicas(observed.pods, current, startup_timeout, now)
    # One that a rollout adds and that has no place is none of those which a smaller pool would do without.
    counts = replace(counts, unplaced=max(0, counts.unplaced - additional(observed)))
    return decide(observed.pool.spec, memory, counts, observed.signal, now)


def _manifests(
    observed: Observed, choice: TemplateChoice | None, installation: Installation, replicas: int, surge: bool
) -> tuple[Mapping[str, Any], ...]:
    pool = observed.pool
    if choice is None or observed.profile is None:
        # Without a profile that fits there is nothing to build from, and what runs must not be touched.
        return ()
    engines = deployment(pool, observed.profile, replicas, choice.record.template, choice.annotations, surge)
    if observed.conflict is not None:
        # Nothing new for a pool that may not serve; what an earlier claim left running goes.
        return _not_taken((engines,), observed.taken_names) if observed.deployment else ()
    if choice.untouched:
        return _not_taken(
            (network_policy(pool, installation), service(pool), disruption_budget(pool)), observed.taken_names
        )
    # The policy comes first, so that no engine is ever open; the Deployment last, so that it finds everything in place.
    return _not_taken(
        (network_policy(pool, installation), service(pool), disruption_budget(pool), engines), observed.taken_names
    )


def _not_taken(manifests: Iterable[Mapping[str, Any]], taken: Iterable[str]) -> tuple[Mapping[str, Any], ...]:
    names = frozenset(taken)
    return tuple(one for one in manifests if f"{one['kind']}/{one['metadata']['name']}" not in names)


def _findings(
    observed: Observed,
    profile: Finding,
    engines: Finding,
    decision: Decision,
    drain: DrainPlan,
    moving: int,
    manifests: Iterable[Mapping[str, Any]],
    choice: TemplateChoice | None,
    remarks: tuple[str, str],
) -> dict[ConditionType, Finding]:
    live = sum(pod.live for pod in observed.pods) - additional(observed)
    ours = next((one for one in manifests if one["kind"] == "Deployment"), None)
    managed = observed.deployment.managed_fields if observed.deployment else ()
    foreign = foreign_fields(managed, ours) if ours else ()
    back = taken_back(choice, observed.pool) if choice else None
    degraded = back or pool_conditions.degraded(observed, foreign)
    if choice and not degraded.status:
        degraded = not_remembered(choice) or degraded
    waits = outdated(choice, observed.pool) if choice else None
    return {
        ConditionType.PROFILE_READY: profile,
        ConditionType.SLICES_GRANTED: slices_granted(observed, decision.desired),
        ConditionType.ENGINES_READY: engines,
        ConditionType.SCALING: pool_conditions.scaling(decision, live, *remarks),
        ConditionType.DRAINING: drain_report.condition(observed, drain, moving) or pool_conditions.draining(observed),
        ConditionType.DEGRADED: degraded,
        ConditionType.CONFLICT: pool_conditions.conflict(observed),
        **({ConditionType.OUTDATED: waits} if waits else {}),
    }


def _status(
    observed: Observed,
    decision: Decision,
    drain: DrainPlan,
    findings: Mapping[ConditionType, Finding],
    why: str,
    start: ReplicaStart | None,
    now: datetime,
) -> WorkspacePoolStatus:
    pool = observed.pool
    live = [pod for pod in observed.pods if pod.live]
    generation = pool.metadata.generation
    return WorkspacePoolStatus(
        observed_generation=generation,
        replicas=len(live),
        ready_replicas=sum(pod.ready for pod in live),
        desired_replicas=decision.desired,
        selector=selector_text(pool),
        queue_depth=observed.signal.depth if observed.signal else None,
        models=[] if observed.conflict else list(pool.served_names),
        draining=_draining(observed, drain),
        drain_marks=list(drain.marks),
        slices=measured_slices(
            observed, _slices(observed, decision.desired, sum(pod.scheduled for pod in live), pool, why)
        ),
        last_start=start,
        scaling=decision.memory,
        conditions=pool_conditions.as_conditions(findings, pool.status.conditions, generation, now),
    )


def _draining(observed: Observed, drain: DrainPlan) -> list[str]:
    asked = sorted(mark.uid for mark in drain.marks)
    # Routers also see by themselves that a pod terminates; one that they must not use yet lives only here.
    return [*asked, *sorted(pod.uid for pod in observed.pods if pod.deleting)][:_MAX_DRAINING]


def _slices(observed: Observed, wanted: int, granted: int, pool: WorkspacePool, why: str) -> SliceStatus:
    if observed.profile is None:
        return pool.status.slices.model_copy(update={"wanted": wanted, "granted": granted, "free": None})
    spec = observed.profile.spec.slice
    free = observed.inventory.free(slice_resource(spec.profiles[0]), spec.products) if observed.inventory else None
    return SliceStatus(profile=spec.profiles[0], message=why, wanted=wanted, granted=granted, free=free)
