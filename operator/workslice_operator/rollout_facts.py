"""A pool's Deployment and its ReplicaSets, as frozen facts. Built from raw API objects, pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from workslice_api.names import FAILED_TEMPLATE_ANNOTATION, READY_TEMPLATE_ANNOTATION, TEMPLATE_HASH_ANNOTATION

REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"
TEMPLATE_LABEL: Final = "pod-template-hash"
"""Of ReplicaSets and their pods."""


@dataclass(frozen=True)
class ReplicaSetFacts:
    """One ReplicaSet of the pool's Deployment."""

    name: str
    replicas: int
    """Pods that it wants."""
    failure: str
    """Message of its condition ReplicaFailure: why the API refuses its pods (quota, Pod Security); empty otherwise."""
    template: str = ""
    """What Kubernetes calls its pod template."""
    revision: int = 0
    """The ReplicaSet of the Deployment's present template has the highest."""


@dataclass(frozen=True)
class DeploymentFacts:
    """The pool's Deployment."""

    name: str
    uid: str
    replicas: int
    """Pods that its spec asks for."""
    updated_replicas: int
    """Pods of the newest template."""
    managed_fields: tuple[Mapping[str, Any], ...]
    """metadata.managedFields, raw."""
    template_hash: str = ""
    """Of the pod template that was applied last."""
    ready_template: str = ""
    """Annotation READY_TEMPLATE_ANNOTATION."""
    failed_template: str = ""
    """Annotation FAILED_TEMPLATE_ANNOTATION."""
    settled: bool = True
    """The Deployment controller has seen its newest spec."""
    outdated_replicas: int = 0
    """Pods of older templates that still exist."""
    progress_deadline: float = 600.0
    """Seconds without progress after which a rollout has stalled: progressDeadlineSeconds, by default that of the API."""
    stalled: bool = False
    """The rollout has passed its deadline without progress."""
    surges: bool = False
    """Rollouts start a new replica before an old one goes."""


def deployment_facts(raw: Mapping[str, Any]) -> DeploymentFacts:
    """Read a raw Deployment."""
    metadata, status = raw["metadata"], raw.get("status", {})
    updated = status.get("updatedReplicas", 0)
    annotations = metadata.get("annotations") or {}
    rolling_update = (raw.get("spec", {}).get("strategy") or {}).get("rollingUpdate") or {}
    return DeploymentFacts(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        replicas=raw.get("spec", {}).get("replicas", 1),
        updated_replicas=updated,
        managed_fields=tuple(metadata.get("managedFields") or ()),
        template_hash=annotations.get(TEMPLATE_HASH_ANNOTATION, ""),
        ready_template=annotations.get(READY_TEMPLATE_ANNOTATION, ""),
        failed_template=annotations.get(FAILED_TEMPLATE_ANNOTATION, ""),
        settled=status.get("observedGeneration", 0) >= metadata.get("generation", 0),
        outdated_replicas=max(0, status.get("replicas", 0) - updated),
        progress_deadline=raw.get("spec", {}).get("progressDeadlineSeconds", 600),
        stalled=any(one.get("reason") == "ProgressDeadlineExceeded" for one in status.get("conditions") or []),
        surges=rolling_update.get("maxSurge") == 1,
    )


def replica_set_facts(raw: Mapping[str, Any]) -> ReplicaSetFacts:
    """Read a raw ReplicaSet."""
    metadata, conditions = raw["metadata"], raw.get("status", {}).get("conditions") or []
    failure: Mapping[str, Any] = next(
        (one for one in conditions if one["type"] == "ReplicaFailure" and one["status"] == "True"), {}
    )
    return ReplicaSetFacts(
        name=metadata["name"],
        replicas=raw.get("spec", {}).get("replicas", 0),
        failure=failure.get("message", "") or failure.get("reason", ""),
        template=(metadata.get("labels") or {}).get(TEMPLATE_LABEL, ""),
        revision=_revision(metadata),
    )


def _revision(metadata: Mapping[str, Any]) -> int:
    text = (metadata.get("annotations") or {}).get(REVISION_ANNOTATION, "")
    return int(text) if text.isdecimal() else 0
