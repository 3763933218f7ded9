"""The conditions of a pool. Every one is always present; Ready is derived from the others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from workslice_api.base import Condition
from workslice_api.conditions import condition, merge_conditions
from workslice_api.names import ConditionType, Reason
from workslice_operator.finding import Finding
from workslice_operator.observed import Observed
from workslice_operator.profile_fit import ProfileFit
from workslice_operator.scaling import Decision


def profile_ready(observed: Observed, fit: ProfileFit | None) -> Finding:
    """ProfileReady: whether the pool may be built from its profile as both stand now. `fit` is what the profile states
    (profile_fit.stated_fit); None without a profile.
    """
    name = observed.pool.spec.profile_ref.name
    profile = observed.profile
    if profile is None and observed.profile_error:
        return Finding(
            False,
            Reason.PROFILE_INVALID,
            f"WorkspaceProfile {name} cannot be used: {observed.profile_error}; correct it",
        )
    if profile is None:
        message = f"WorkspaceProfile {name} does not exist: create it or correct spec.profileRef; running engines stay as they are"
        return Finding(False, Reason.PROFILE_NOT_FOUND, message)
    namespace = observed.pool.metadata.namespace
    if not profile.spec.allows(namespace):
        message = (
            f"WorkspaceProfile {name} may not be used in namespace {namespace}: add {namespace} to allowedNamespaces of the profile, or "
            "let spec.profileRef name another one; running engines stay as they are"
        )
        return Finding(False, Reason.PROFILE_NOT_ALLOWED, message)
    engine, workspace, request_class = profile.spec.engine, profile.spec.workspace, observed.pool.spec.request_class
    if engine.batched_tokens < workspace.max_concurrent:
        message = (
            f"WorkspaceProfile {name} has engine.batchedTokens {engine.batched_tokens} below workspace.maxConcurrent "
            f"{workspace.max_concurrent}, which vLLM refuses: raise the first or lower the second"
        )
        return Finding(False, Reason.PROFILE_INVALID, message)
    if request_class.max_total_tokens > workspace.max_tokens:
        message = (
            f"requestClass {request_class.name} takes requests of {request_class.max_total_tokens} tokens, but WorkspaceProfile {name} "
            f"has a context of {workspace.max_tokens}: lower requestClass.maxTotalTokens, or raise workspace.maxTokens of the profile"
        )
        return Finding(False, Reason.CLASS_EXCEEDS_CONTEXT, message)
    if fit is not None and fit.finding.status is False:
        message = f"WorkspaceProfile {name} fits no slice that it names, so nothing is started: {fit.finding.message}"
        return Finding(False, Reason.PROFILE_DOES_NOT_FIT, message)
    return Finding(True, Reason.PROFILE_FOUND, f"WorkspaceProfile {name} fits")


def conflict(observed: Observed) -> Finding:
    """Conflict: whether another namespace owns one of the pool's model names."""
    found = observed.conflict
    if found is None:
        return Finding(False, Reason.MODEL_OWNED, "the model's names belong to this namespace")
    owner = (
        f"pool {found.owner_namespace}/{found.owner_pool}" if found.owner_pool else f"namespace {found.owner_namespace}"
    )
    message = (
        f"the model name {found.model} belongs to {owner}, so this pool serves nothing: choose another model name or alias, "
        "or deploy the pool in that namespace"
    )
    return Finding(True, Reason.MODEL_OWNED_ELSEWHERE, message)


def scaling(decision: Decision, live: int, *remarks: str) -> Finding:
    """Scaling: True while the pool moves to another size, Unknown while demand is; `remarks` that are not empty are said after it."""
    finding = _size(decision, live)
    return replace(finding, message="; ".join(filter(None, (finding.message, *remarks))))


def _size(decision: Decision, live: int) -> Finding:
    if decision.reason is Reason.SIGNAL_UNKNOWN:
        return Finding(None, decision.reason, decision.message)
    if live == decision.desired:
        # Once the pods are there the move is over, also when this very decision ordered it.
        moved = decision.reason in (Reason.SCALED_UP, Reason.SCALED_DOWN)
        return Finding(False, Reason.STEADY if moved else decision.reason, decision.message)
    reason = Reason.SCALED_UP if live < decision.desired else Reason.SCALED_DOWN
    return Finding(True, reason, f"from {live} to {decision.desired}: {decision.message}")


def draining(observed: Observed) -> Finding:
    """Draining: whether replicas are going and finish their requests."""
    going = sorted(pod.name for pod in observed.pods if pod.deleting)
    if not going:
        return Finding(False, Reason.NOT_DRAINING, "no replica is going")
    listed = ", ".join(going[:5]) + (f" and {len(going) - 5} more" if len(going) > 5 else "")
    timeout = observed.pool.spec.drain.timeout
    return Finding(True, Reason.REPLICAS_TERMINATING, f"finishing their requests, for at most {timeout}: {listed}")


def degraded(observed: Observed, foreign: Sequence[str]) -> Finding:
    """Degraded: whether the children are not quite what the operator made, or the pool cannot quite do what its spec says."""
    if observed.taken_names:
        message = (
            f"{', '.join(observed.taken_names)} exists and is not this pool's: delete or rename it, or rename the pool"
        )
        return Finding(True, Reason.NAME_TAKEN, message)
    if foreign:
        listed = "; ".join(foreign[:10])
        message = (
            f"the engine Deployment has fields that others added, which Workslice leaves alone: {listed}; remove them, or delete "
            "the Deployment to have it made anew; use template of the pool and engine.env of the profile instead"
        )
        return Finding(True, Reason.FOREIGN_FIELDS, message)
    if observed.unserved_fallback:
        message = (
            f"degrade.fallbackModel {observed.unserved_fallback} is served by no other pool of namespace "
            f"{observed.pool.metadata.namespace}, so requests without a place get 429 at once: correct the name, or create such a pool"
        )
        return Finding(True, Reason.FALLBACK_NOT_SERVED, message)
    return Finding(False, Reason.AS_EXPECTED, "the children are as Workslice made them")


def ready(parts: Mapping[ConditionType, Finding]) -> Finding:
    """Ready: ProfileReady, SlicesGranted and EnginesReady are True and there is no Conflict."""
    if parts[ConditionType.CONFLICT].status:
        return Finding(False, Reason.POOL_NOT_READY, f"Conflict: {parts[ConditionType.CONFLICT].message}")
    needed = (ConditionType.PROFILE_READY, ConditionType.SLICES_GRANTED, ConditionType.ENGINES_READY)
    # While the scheduler looks for a place SlicesGranted is Unknown: a pool that grows must not look broken for that moment, and
    # one that has too few engines is not ready by EnginesReady.
    good = {ConditionType.SLICES_GRANTED: (True, None)}
    missing = [f"{one}: {parts[one].message}" for one in needed if parts[one].status not in good.get(one, (True,))]
    if missing:
        return Finding(False, Reason.POOL_NOT_READY, " | ".join(missing))
    return Finding(True, Reason.POOL_READY, parts[ConditionType.ENGINES_READY].message)


def as_conditions(
    findings: Mapping[ConditionType, Finding], previous: Sequence[Condition], generation: int, now: datetime
) -> list[Condition]:
    """The findings as conditions, with Ready first and the transition times of those that did not change."""
    ordered = {ConditionType.READY: ready(findings), **findings}
    stamp = rfc3339(now)
    current = [
        condition(type_, one.status, one.reason, one.message, generation, stamp) for type_, one in ordered.items()
    ]
    return merge_conditions(previous, current)


def rfc3339(now: datetime) -> str:
    """The time as Kubernetes writes it: UTC, whole seconds."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def replaced(
    conditions: Sequence[Condition],
    previous: Sequence[Condition],
    type_: ConditionType,
    finding: Finding,
    generation: int,
    now: datetime,
) -> list[Condition]:
    """The conditions with one of them set anew; `previous` gives the transition times."""
    fresh = condition(type_, finding.status, finding.reason, finding.message, generation, rfc3339(now))
    return merge_conditions(previous, [fresh if one.type == type_ else one for one in conditions])
