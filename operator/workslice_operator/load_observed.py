"""Reads everything that a plan is made from. Only the cluster-wide inventory is shared for a moment."""

import logging
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from workslice_api.names import MANAGED_BY, MANAGED_BY_LABEL, POOL_LABEL, child_name
from workslice_api.ownership import Conflict
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.kube_api import (
    CHILDREN,
    CLAIMS,
    NODES,
    PODS,
    PROFILES,
    REPLICA_SETS,
    Object,
    Reads,
    Refused,
)
from workslice_operator.model_source import locate_model
from workslice_operator.observed import Observed, QueueSignal, pod_facts
from workslice_operator.readable import validation_sentence
from workslice_operator.rollout_facts import deployment_facts, replica_set_facts
from workslice_operator.shared_read import SharedRead
from workslice_operator.slice_inventory import SliceInventory, slice_inventory

log = logging.getLogger(__name__)

INVENTORY_SECONDS = 3.0
"""The read of all nodes and all pods of the cluster is shared for this long."""


class PredecessorRemains(Exception):
    """A child of a deleted pool of the same name is still there: the garbage collector must take it first."""


def shared_inventory(kube: Reads) -> SharedRead[SliceInventory | None]:
    """The slices of the cluster; None (unknown) when the operator may not read nodes or pods."""

    async def read() -> SliceInventory | None:
        try:
            nodes = await kube.list(NODES)
            pods = await kube.list(PODS, fields="status.phase!=Succeeded,status.phase!=Failed")
        except Refused as error:
            log.warning("free slices are unknown: %s", error)
            return None
        return slice_inventory(nodes, pods)

    return SharedRead(read, INVENTORY_SECONDS)


async def load_children(kube: Reads, pool: WorkspacePool) -> dict[str, Object]:
    """The objects that exist under the names of the pool's children, by kind, whoever owns them.

    Raises:
        PredecessorRemains: one of them still belongs to a deleted pool of the same name.
    """
    children = {}
    for resource in CHILDREN:
        raw = await kube.get(resource, pool.metadata.namespace, child_name(pool.metadata.name))
        if raw is None:
            continue
        children[resource.kind] = raw
        if not is_taken(raw, pool) and _owner_uid(raw) not in (None, pool.metadata.uid):
            raise PredecessorRemains(f"{resource.kind} {raw['metadata']['name']} of a deleted pool is still there")
    return children


def is_taken(raw: Mapping[str, Any], pool: WorkspacePool) -> bool:
    """Whether an object under a child's name is neither this pool's nor one left by a pool of this name."""
    owner = _controller(raw)
    if owner is not None:
        return not (owner.get("kind") == pool.kind and owner.get("name") == pool.metadata.name)
    labels = raw["metadata"].get("labels") or {}
    return labels.get(MANAGED_BY_LABEL) != MANAGED_BY or labels.get(POOL_LABEL) != pool.metadata.name


async def load_observed(
    kube: Reads,
    pool: WorkspacePool,
    children: Mapping[str, Object],
    conflict: Conflict | None,
    signal: QueueSignal | None,
    inventory: SliceInventory | None,
) -> Observed:
    """The facts about one pool."""
    namespace = pool.metadata.namespace
    profile, profile_error = await _load_profile(kube, pool.spec.profile_ref.name)
    taken = tuple(f"{kind}/{raw['metadata']['name']}" for kind, raw in children.items() if is_taken(raw, pool))
    deployment = children.get("Deployment")
    own_labels = f"{POOL_LABEL}={pool.metadata.name},{MANAGED_BY_LABEL}={MANAGED_BY}"
    replica_sets = await kube.list(REPLICA_SETS, namespace, labels=own_labels)
    pods = await kube.list(PODS, namespace, labels=own_labels)
    claim = locate_model(profile.spec.model).claim if profile else None
    missing = (claim,) if claim and await kube.get(CLAIMS, namespace, claim) is None else ()
    return Observed(
        pool=pool,
        profile=profile,
        profile_error=profile_error,
        conflict=conflict,
        deployment=deployment_facts(deployment) if deployment and not is_taken(deployment, pool) else None,
        replica_sets=tuple(sorted(map(replica_set_facts, replica_sets), key=lambda one: one.name)),
        taken_names=taken,
        pods=tuple(sorted(map(pod_facts, pods), key=lambda one: one.name)),
        inventory=inventory,
        signal=signal,
        missing_volumes=missing,
    )


async def _load_profile(kube: Reads, name: str) -> tuple[WorkspaceProfile | None, str]:
    raw = await kube.get(PROFILES, "", name)
    if raw is None:
        return None, ""
    try:
        return WorkspaceProfile.model_validate(raw), ""
    except ValidationError as error:
        return None, validation_sentence(error)


def _controller(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    owners = raw["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def _owner_uid(raw: Mapping[str, Any]) -> str | None:
    owner = _controller(raw)
    return str(owner.get("uid", "")) if owner else None
