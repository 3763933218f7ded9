"""Whether a rollout starts each new replica beside the old ones, on a free slice, or in the place of one. Pure.

It is decided when the pod template changes, and stays so until the next change: the Deployment's strategy is the memory of it. Only when
the additional replica does not get its slice the old ones go first after all, so that every rollout ends.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from workslice_api.slices import slice_resource
from workslice_operator.observed import Observed, PodFacts
from workslice_operator.render.termination import termination
from workslice_operator.rollout_facts import DeploymentFacts
from workslice_operator.slice_conditions import free_although_refused, may_settle

_PLACING_SECONDS: Final = 60.0
"""A scheduler says within moments whether it has a place; one that says nothing for so long is another than it was."""


def surges(observed: Observed, template_hash: str, replicas: int, moving: int, now: datetime) -> bool:
    """Whether the Deployment, with so many replicas of the template of that hash, may have one more while they are replaced.

    `moving` are replicas among those that only stand in for others: there is one more already.
    """
    deployment = observed.deployment
    if deployment is None:
        return False
    if begins(observed, template_hash):
        return not moving and _has_slice(observed, replicas)
    return deployment.surges and not _in_vain(observed, deployment, now)


def wanted_slice(observed: Observed) -> str:
    """Resource of the slices that the pool's replicas take; empty while that is not known."""
    return slice_resource(observed.profile.spec.slice.profiles[0]) if observed.profile else ""


def begins(observed: Observed, template_hash: str) -> bool:
    """Whether a rollout begins with the template of that hash."""
    return observed.deployment is not None and template_hash not in ("", observed.deployment.template_hash)


def is_surging(observed: Observed) -> bool:
    """Whether a rollout that may have one replica more is under way."""
    deployment = observed.deployment
    if deployment is None or not deployment.surges:
        return False
    if deployment.settled:
        return deployment.outdated_replicas > 0
    # Its status is from before: a pool that shrinks has one ReplicaSet that wants pods, one that rolls has two.
    return sum(one.replicas > 0 for one in observed.replica_sets) > 1


def additional(observed: Observed) -> int:
    """How many of the live pods are there only for the rollout: 0 or 1."""
    deployment = observed.deployment
    if deployment is None or not is_surging(observed):
        return 0
    return min(1, max(0, sum(pod.live for pod in observed.pods) - deployment.replicas))


def waits_for_place(observed: Observed) -> bool:
    """Whether the additional replica is not placed yet, so that it may be in vain."""
    return is_surging(observed) and (
        any(pod.live and not pod.scheduled for pod in observed.pods) or not additional(observed)
    )


def without_previous_version(observed: Observed) -> Observed:
    """The pool as if a surge had replaced its only replica already: whether the new version is any good must not wait for the old one
    to be gone, since it stays until the new one is ready. The same pool where there is no such surge.
    """
    deployment = observed.deployment
    if deployment is None or not deployment.settled or deployment.replicas != 1 or not is_surging(observed):
        return observed
    if any("exceeded quota" in one.failure for one in observed.replica_sets):
        return observed  # it may come up in the place of the old one
    newest = _newest_template(observed)
    if not newest:
        return observed
    pods = tuple(pod for pod in observed.pods if pod.template == newest)
    return replace(observed, pods=pods, deployment=replace(deployment, outdated_replicas=0))


def _has_slice(observed: Observed, replicas: int) -> bool:
    """Whether there is a slice for one more than so many replicas, and a replica that serves meanwhile."""
    inventory, profile = observed.inventory, observed.profile
    live = _live(observed)
    if inventory is None or profile is None or not replicas or not any(pod.ready for pod in live):
        return False
    if any(one.failure and one.replicas for one in observed.replica_sets):
        return False
    lacking = replicas + 1 - sum(pod.scheduled for pod in live)
    if lacking <= 0:
        return True  # that of a rollout before
    resource = wanted_slice(observed)
    # What other pods wait for is theirs, wherever they may run: at worst the old replica goes first.
    others = max(0, inventory.waiting.get(resource, 0) - sum(not pod.scheduled for pod in live))
    return inventory.free(resource, profile.spec.slice.products) - others - observed.spoken_for >= lacking


def _in_vain(observed: Observed, deployment: DeploymentFacts, now: datetime) -> bool:
    """Whether the additional replica will not come unless an old one goes."""
    if not deployment.settled or not deployment.outdated_replicas or _one_starts(observed):
        return False
    if any(one.failure and one.replicas for one in observed.replica_sets):
        return True
    unplaced = [pod for pod in _live(observed) if not pod.scheduled]
    if not unplaced:
        return False
    waited = max(((now - pod.created_at).total_seconds() for pod in unplaced if pod.created_at), default=0.0)
    if _gives_slice_back(observed) and waited < _longest_end(observed) + _PLACING_SECONDS:
        return False
    if any(pod.unschedulable for pod in unplaced):
        return not (free_although_refused(observed) and may_settle(observed))
    return waited >= _PLACING_SECONDS


def _one_starts(observed: Observed) -> bool:
    """Whether a replica of the new version has its slice and is not ready: when it is, an old one goes and another slice is free."""
    newest = _newest_template(observed)
    return any(newest and pod.template == newest and pod.scheduled and not pod.ready for pod in _live(observed))


def _newest_template(observed: Observed) -> str:
    newest = max(observed.replica_sets, key=lambda one: one.revision, default=None)
    return newest.template if newest else ""


def _gives_slice_back(observed: Observed) -> bool:
    """Whether a replica that was replaced still finishes its requests; on a lost node it never will."""
    lost = observed.lost_nodes
    return any(pod.deleting and pod.scheduled and pod.node not in lost for pod in observed.pods)


def _longest_end(observed: Observed) -> float:
    if observed.profile is None:
        return 0.0
    return termination(observed.pool.spec.drain.timeout, observed.profile.spec.engine.version).grace_period


def _live(observed: Observed) -> Sequence[PodFacts]:
    return [pod for pod in observed.pods if pod.live]
