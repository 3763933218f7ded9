"""What exists in the cluster for one pool, as frozen facts: the input of `plan`. Built from raw API objects, pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from workslice_api.names import ENGINE_CONTAINER
from workslice_api.ownership import Conflict
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.slice_inventory import SliceInventory


@dataclass(frozen=True)
class ContainerExit:
    """How the engine container ended the last time it ended."""

    reason: str
    exit_code: int
    message: str
    """The container's last words (end of its log)."""
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True)
class PodFacts:
    """One engine pod."""

    name: str
    uid: str
    created_at: datetime | None
    deleting: bool
    phase: str
    started: bool
    """Its startup probe has passed: the running engine has answered /health at least once."""
    ready: bool
    scheduled_at: datetime | None
    """When the scheduler placed it; None while it waits for a place."""
    unschedulable: str
    """What the scheduler says about a pod that it cannot place; empty otherwise."""
    waiting_reason: str
    """Why the engine container does not run (ImagePullBackOff, CrashLoopBackOff, ContainerCreating ...); empty when it runs."""
    waiting_message: str
    restarts: int
    last_exit: ContainerExit | None
    memory_limit: str
    failure: str
    """Reason and message of a pod that failed as a whole (Evicted, UnexpectedAdmissionError ...)."""

    @property
    def live(self) -> bool:
        """Neither going nor finished: one of the replicas that the Deployment counts."""
        return not self.deleting and self.phase not in ("Succeeded", "Failed")

    @property
    def scheduled(self) -> bool:
        """Whether it has a place, and so its slice."""
        return self.scheduled_at is not None


@dataclass(frozen=True)
class ReplicaSetFacts:
    """One ReplicaSet of the pool's Deployment."""

    name: str
    replicas: int
    """Pods that it wants."""
    failure: str
    """Message of its condition ReplicaFailure: why the API refuses its pods (quota, Pod Security); empty otherwise."""


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


@dataclass(frozen=True)
class QueueSignal:
    """Demand of a pool, added up over all routers."""

    queued: int
    running: int
    routers: int = 1
    """Routers that were asked; all of them answered, or there would be no signal."""

    @property
    def depth(self) -> int:
        """Queue depth: requests that wait plus requests that run."""
        return self.queued + self.running


@dataclass(frozen=True)
class Observed:
    """Everything that a plan is made from."""

    pool: WorkspacePool
    profile: WorkspaceProfile | None
    """None: it does not exist, or `profile_error` says why it cannot be read."""
    profile_error: str = ""
    conflict: Conflict | None = None
    deployment: DeploymentFacts | None = None
    replica_sets: tuple[ReplicaSetFacts, ...] = ()
    taken_names: tuple[str, ...] = ()
    """Children's names that someone else's objects hold, as Kind/name."""
    pods: tuple[PodFacts, ...] = ()
    inventory: SliceInventory | None = None
    """None: not known now."""
    signal: QueueSignal | None = None
    """None: unknown (a router did not answer, or has not seen the pool yet); never a stand-in for zero."""
    missing_volumes: tuple[str, ...] = ()
    """PersistentVolumeClaims that the profile's model.source names and that do not exist in the pool's namespace."""


def pod_facts(raw: Mapping[str, Any]) -> PodFacts:
    """Read a raw Pod."""
    metadata, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    conditions = {one["type"]: one for one in status.get("conditions") or []}
    scheduled = conditions.get("PodScheduled", {})
    engine = _named(status.get("containerStatuses"))
    state, last = engine.get("state") or {}, engine.get("lastState") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or last.get("terminated")
    limits = _named(spec.get("containers")).get("resources", {}).get("limits") or {}
    return PodFacts(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        created_at=_time(metadata.get("creationTimestamp")),
        deleting=metadata.get("deletionTimestamp") is not None,
        phase=status.get("phase", "Pending"),
        started=bool(engine.get("started", False)),
        ready=conditions.get("Ready", {}).get("status") == "True",
        scheduled_at=_scheduled_at(spec, scheduled, metadata),
        unschedulable=scheduled.get("message", "") if scheduled.get("reason") == "Unschedulable" else "",
        waiting_reason=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        restarts=engine.get("restartCount", 0),
        last_exit=_container_exit(ended) if ended else None,
        memory_limit=str(limits.get("memory", "")),
        failure=": ".join(part for part in (status.get("reason"), status.get("message")) if part),
    )


def deployment_facts(raw: Mapping[str, Any]) -> DeploymentFacts:
    """Read a raw Deployment."""
    metadata, status = raw["metadata"], raw.get("status", {})
    return DeploymentFacts(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        replicas=raw.get("spec", {}).get("replicas", 1),
        updated_replicas=status.get("updatedReplicas", 0),
        managed_fields=tuple(metadata.get("managedFields") or ()),
    )


def replica_set_facts(raw: Mapping[str, Any]) -> ReplicaSetFacts:
    """Read a raw ReplicaSet."""
    conditions = raw.get("status", {}).get("conditions") or []
    failure: Mapping[str, Any] = next(
        (one for one in conditions if one["type"] == "ReplicaFailure" and one["status"] == "True"), {}
    )
    return ReplicaSetFacts(
        name=raw["metadata"]["name"],
        replicas=raw.get("spec", {}).get("replicas", 0),
        failure=failure.get("message", "") or failure.get("reason", ""),
    )


def _named(containers: Iterable[Mapping[str, Any]] | None) -> Mapping[str, Any]:
    return next((one for one in containers or () if one["name"] == ENGINE_CONTAINER), {})


def _scheduled_at(
    spec: Mapping[str, Any], condition: Mapping[str, Any], metadata: Mapping[str, Any]
) -> datetime | None:
    if condition.get("status") == "True":
        return _time(condition.get("lastTransitionTime")) or _time(metadata.get("creationTimestamp"))
    # The binding is visible in the spec a moment before the condition is.
    return _time(metadata.get("creationTimestamp")) if spec.get("nodeName") else None


def _container_exit(raw: Mapping[str, Any]) -> ContainerExit:
    return ContainerExit(
        reason=raw.get("reason", ""),
        exit_code=raw.get("exitCode", 0),
        message=raw.get("message", ""),
        started_at=_time(raw.get("startedAt")),
        finished_at=_time(raw.get("finishedAt")),
    )


def _time(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None
