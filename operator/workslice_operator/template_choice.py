"""Which pod template a pool's replicas get: the one rendered now, or an earlier one that was Ready. Pure.

An earlier one stays when nothing but the operator's version has changed, and comes back when the pool's only replicas do not come up
with the new one. What must be remembered is in annotations of the Deployment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from workslice_api.names import (
    FAILED_TEMPLATE_ANNOTATION,
    READY_TEMPLATE_ANNOTATION,
    RENDERING_ANNOTATION,
    RENDERING_LATEST,
    TEMPLATE_HASH_ANNOTATION,
    Reason,
    child_name,
)
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.finding import Finding
from workslice_operator.observed import Observed
from workslice_operator.rollout_facts import DeploymentFacts
from workslice_operator.surge import without_previous_version
from workslice_operator.template_record import TemplateRecord, read_record, rendered_record

_MAY_PASS: Final = (Reason.STARTING, Reason.NOT_STARTED, Reason.NODE_LOST, Reason.NOT_ANSWERING)
"""Reasons of EnginesReady that say nothing against a template."""
_CHANCES: Final = 2
"""Restarts that an engine has which ends without a fault that Workslice knows."""
_LONGEST_WHY: Final = 1500


@dataclass(frozen=True)
class TemplateChoice:
    """The template to apply and what to remember with it."""

    record: TemplateRecord
    ready: TemplateRecord | None = None
    """The last one with which a replica was ready."""
    failed: TemplateRecord | None = None
    """The one that was taken back."""
    waiting: bool = False
    """This version of the operator would render the pods otherwise."""
    without_turn: bool = False
    """Another template is due once fewer pools are being rolled out."""
    untouched: bool = False
    """What runs is not remembered, so that the Deployment must stay as it is meanwhile."""

    @property
    def annotations(self) -> dict[str, str]:
        """Of the Deployment."""
        remembered = {
            READY_TEMPLATE_ANNOTATION: self.ready.as_text() if self.ready else "",
            FAILED_TEMPLATE_ANNOTATION: _text_of_failed(self.failed) if self.failed else "",
        }
        return {TEMPLATE_HASH_ANNOTATION: self.record.hash, **{name: text for name, text in remembered.items() if text}}


def choose_template(observed: Observed, profile: WorkspaceProfile, engines: Finding) -> TemplateChoice:
    """Decide; `engines` is the finding EnginesReady of `surge.without_previous_version`."""
    choice, deployment = _choose(observed, profile, engines), observed.deployment
    if observed.may_roll or deployment is None or choice.record.hash == deployment.template_hash:
        return choice
    ready = read_record(deployment.ready_template)
    if ready is None and any(pod.ready for pod in observed.pods if pod.live):
        return replace(choice, without_turn=True, untouched=True)
    if ready is None or ready.hash != deployment.template_hash or not deployment.replicas:
        return choice  # nothing that serves is replaced
    return TemplateChoice(ready, ready, read_record(deployment.failed_template), without_turn=True)


def _choose(observed: Observed, profile: WorkspaceProfile, engines: Finding) -> TemplateChoice:
    pool, deployment = observed.pool, observed.deployment
    fresh = rendered_record(pool, profile)
    if deployment is None:
        return TemplateChoice(fresh)
    ready, failed = read_record(deployment.ready_template), read_record(deployment.failed_template)
    runs_fresh = deployment.template_hash == fresh.hash
    if runs_fresh and _proven(observed, deployment):
        return TemplateChoice(fresh, ready if ready and ready.hash == fresh.hash else fresh)
    if ready is None:
        return TemplateChoice(fresh)
    if runs_fresh and ready.hash != fresh.hash and _broken(observed, engines, ready, fresh):
        failed = replace(fresh, why=engines.message[:_LONGEST_WHY])
        # Without a memory of the failure the two would be tried in turns, for ever.
        return TemplateChoice(ready, ready, failed) if _text_of_failed(failed) else TemplateChoice(fresh, ready)
    if deployment.template_hash != ready.hash or runs_fresh:
        return TemplateChoice(fresh, ready)
    if failed is not None and failed.renders_like(fresh, pool, profile):
        return TemplateChoice(ready, ready, failed)
    if wants_latest(pool) or not ready.renders_like(fresh, pool, profile):
        return TemplateChoice(fresh, ready)
    return TemplateChoice(ready, ready, waiting=True)


def wants_latest(pool: WorkspacePool) -> bool:
    """Whether somebody has asked for the present operator's rendering."""
    return pool.metadata.annotations.get(RENDERING_ANNOTATION) == RENDERING_LATEST


def taken_back(choice: TemplateChoice, pool: WorkspacePool) -> Finding | None:
    """Degraded, when the pool runs an earlier template because the new one failed."""
    if choice.failed is None:
        return None
    name = child_name(pool.metadata.name)
    message = (
        f"what was changed last did not come up, so the pool is back on the last version that was Ready; {choice.failed.why}; correct the "
        f"profile or the pool, or try the same again: kubectl annotate deployment/{name} -n {pool.metadata.namespace} "
        f"{FAILED_TEMPLATE_ANNOTATION}-"
    )
    return Finding(True, Reason.TAKEN_BACK, message)


def not_remembered(choice: TemplateChoice) -> Finding | None:
    """Degraded, when the template is too long for the memory that keeps engines through upgrades and failed changes."""
    ready = choice.ready
    newest = ready if ready is not None and ready.hash == choice.record.hash else choice.record
    if newest.as_text():
        return None
    message = (
        "the engines' pod template, with the pool and the profile that it comes from, is too long to be remembered (100,000 bytes, "
        "compressed), so an upgrade of the operator may restart the engines, and a change that fails may not be taken back; shorten "
        "engine.warmup.prefixes, engine.env or engine.extraArgs of the profile, or template of the pool"
    )
    return Finding(True, Reason.TEMPLATE_TOO_LONG, message)


def outdated(choice: TemplateChoice, pool: WorkspacePool) -> Finding | None:
    """Outdated, when a newer rendering or a change waits."""
    if choice.without_turn:
        message = (
            "what was changed needs other engine pods, and the replicas of many other pools are being replaced now: those of this pool "
            "follow when some of those are done, without further ado"
        )
        return Finding(True, Reason.ROLLOUT_WAITS, message)
    if not choice.waiting:
        return None
    message = (
        "this version of the operator makes the engine pods otherwise than those that run; they are replaced with the next change "
        f"that replaces them anyway, or at once: kubectl annotate wspool/{pool.metadata.name} -n {pool.metadata.namespace} "
        f"{RENDERING_ANNOTATION}={RENDERING_LATEST}"
    )
    return Finding(True, Reason.RENDERING_WAITS, message)


def _text_of_failed(failed: TemplateRecord) -> str:
    # It never comes back, only its specs are compared: a long one does without the template.
    return failed.as_text() or replace(failed, template={}).as_text()


def _proven(observed: Observed, deployment: DeploymentFacts) -> bool:
    complete = deployment.settled and not deployment.outdated_replicas
    return complete and any(pod.ready for pod in observed.pods if pod.live)


def _broken(observed: Observed, engines: Finding, before: TemplateRecord, now: TemplateRecord) -> bool:
    """Whether nothing serves and nothing is left of the template before, so that it must come back to serve at all; or its only replica
    serves just until the new one is ready, which it will not be.
    """
    observed = without_previous_version(observed)
    deployment, live = observed.deployment, [pod for pod in observed.pods if pod.live]
    if deployment is None or not deployment.settled or deployment.outdated_replicas or any(pod.ready for pod in live):
        return False
    if deployment.stalled:
        return all(pod.scheduled for pod in live) or _place(before) != _place(now)
    if engines.status is not False or engines.reason in _MAY_PASS:
        return False
    # What the cluster lacks for both versions is no reason to go back: it would only undo a good change.
    needs = _NEEDS.get(engines.reason)
    if needs is not None:
        return needs(before) != needs(now)
    return engines.reason is not Reason.CRASH_LOOPING or any(pod.restarts >= _CHANCES for pod in live)


def _place(of: TemplateRecord) -> tuple[Any, ...]:
    return of.profile.slice, of.profile.cpu, of.profile.memory, of.pool.template


_NEEDS: Final[Mapping[Reason, Callable[[TemplateRecord], tuple[Any, ...]]]] = {
    Reason.PODS_REFUSED: _place,
    Reason.IMAGE_PULL_FAILED: lambda of: (of.profile.engine.image, of.pool.template),
    Reason.MODEL_VOLUME_MISSING: lambda of: (of.profile.model.source, of.profile.model.cache),
    Reason.MODEL_FETCH_FAILED: lambda of: (
        of.profile.model,
        of.profile.engine.image,
        of.profile.engine.env,
        of.pool.template,
    ),
}
"""What of a version decides whether a fault of the cluster's hits it."""
