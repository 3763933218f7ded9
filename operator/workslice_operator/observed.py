"""What exists in the cluster for one pool, as frozen facts: the input of `plan`. Built from raw API objects, pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from workslice_api.names import DELETION_COST_ANNOTATION, ENGINE_CONTAINER, MODEL_FETCH_CONTAINER
from workslice_api.ownership import Conflict
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.rollout_facts import TEMPLATE_LABEL, DeploymentFacts, ReplicaSetFacts
from workslice_operator.slice_inventory import SliceInventory

_QUICKEST_START: Final = timedelta(seconds=2)
"""No engine is ready sooner: a pod that is not since then never was, the kubelet only wrote down the last end and the new start at once."""

UNHEALTHY: Final = "Unhealthy"
"""Reason of the Events in which the kubelet tells what a probe has said."""
_STOPPED: Final = (0, 130, 137, 143)
"""Exit codes of a container that was told to end: by itself on SIGTERM, by SIGINT, by SIGKILL, by SIGTERM."""


@dataclass(frozen=True)
class ContainerExit:
    """How the engine container ended the last time it ended."""

    reason: str
    exit_code: int
    message: str
    """The container's last words (end of its log)."""
    started_at: datetime | None
    finished_at: datetime | None
    replaced: bool = False
    """The container runs again, or waits to: this is how the one before it ended."""

    @property
    def was_stopped(self) -> bool:
        """It ended as one does that is told to."""
        return self.exit_code in _STOPPED and self.reason != "OOMKilled"


@dataclass(frozen=True)
class Obstacle:
    """What Kubernetes warns of a pod whose container cannot be made, or whose engine was not warmed up."""

    reason: str
    """Of the Event: FailedMount, FailedAttachVolume, FailedCreatePodSandBox ..., UNHEALTHY."""
    message: str
    """Of an UNHEALTHY one: what the warm-up said."""


@dataclass(frozen=True)
class ModelFetch:
    """The container of a pod that fetches the model before the engine starts."""

    done: bool
    failure: str
    """What it said when it failed last, and has not succeeded since; empty otherwise."""
    found: str = ""
    """What it said of the model when it was done."""


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
    ready_at: datetime | None = field(default=None, kw_only=True)
    """Since when it is ready; None while it is not."""
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
    address: str = ""
    """IP address; empty before it has one."""
    node: str = ""
    """Where it was placed."""
    deletion_cost: int = 0
    """What its annotation says to the ReplicaSet; 0 without one."""
    silent: bool = False
    """The running engine was ready and is no longer; between its startup and its first readiness probe it is not silent."""
    sandboxed: bool = True
    """Its volumes are mounted and its network is there: only the images are missing before its containers run."""
    obstacle: Obstacle | None = None
    """What keeps it from that, or from being ready, where Kubernetes has warned."""
    fetch: ModelFetch | None = None
    """None: its model is not fetched into a volume."""
    template: str = ""
    """What Kubernetes calls its pod template: `ReplicaSetFacts.template` of its ReplicaSet."""

    @property
    def live(self) -> bool:
        """Neither going nor finished: one of the replicas that the Deployment counts."""
        return not self.deleting and self.phase not in ("Succeeded", "Failed")

    @property
    def scheduled(self) -> bool:
        """Whether it has a place, and so its slice."""
        return self.scheduled_at is not None

    @property
    def may_hold_requests(self) -> bool:
        """Whether its engine has come up: before that, and after a crash, there is no request to lose."""
        return self.started or self.ready


@dataclass(frozen=True)
class QueueSignal:
    """Demand of a pool, added up over all routers."""

    queued: int
    running: int
    routers: int = 1
    """Routers that were asked; all of them answered, or there would be no signal."""
    asked: int = 0
    """Requests that they have sent to the pool's replicas, or elsewhere because it had none, since each of them started."""

    @property
    def depth(self) -> int:
        """Queue depth: requests that wait plus requests that run."""
        return self.queued + self.running


@dataclass(frozen=True)
class ReplicaUse:
    """One replica as all routers together see it."""

    in_flight: int
    """Requests that the routers which know it have running there."""
    outstanding_tokens: int
    """Estimated tokens of those requests."""
    acknowledged: bool
    """Every router has taken it out of rotation and has nothing running there."""
    silent: int = 0
    """Routers that did not answer or do not know it: what they have running there is unknown."""


@dataclass(frozen=True)
class RouterReport:
    """What the routers, terminating ones included, said of a pool's replicas when they were asked last."""

    asked_at: datetime
    routers: int
    """Routers that exist."""
    replicas: Mapping[str, ReplicaUse]
    """By pod UID."""


@dataclass(frozen=True)
class EngineLoad:
    """What an engine says of itself."""

    running: int
    waiting: int
    kv_tokens: int | None = None
    """Tokens that its KV cache holds; None: it does not say."""

    @property
    def requests(self) -> int:
        """All requests that it has."""
        return self.running + self.waiting


@dataclass(frozen=True)
class Observed:
    """Everything that a plan is made from."""

    pool: WorkspacePool
    profile: WorkspaceProfile | None
    """None: it does not exist, or `profile_error` says why it cannot be read."""
    profile_error: str = ""
    conflict: Conflict | None = None
    unserved_fallback: str = ""
    """Its degrade.fallbackModel, when nobody serves that."""
    deployment: DeploymentFacts | None = None
    replica_sets: tuple[ReplicaSetFacts, ...] = ()
    taken_names: tuple[str, ...] = ()
    """Children's names that someone else's objects hold, as Kind/name."""
    pods: tuple[PodFacts, ...] = ()
    inventory: SliceInventory | None = None
    """None: not known now."""
    signal: QueueSignal | None = None
    """None: unknown (a router did not answer, or has not seen the pool yet); never a stand-in for zero."""
    routers: RouterReport | None = None
    """None: no router could be asked lately."""
    engines: Mapping[str, EngineLoad] = field(default_factory=dict)
    """By pod UID: loads of those that were asked and answered, after the routers had acknowledged them."""
    kv_tokens: int | None = None
    """Tokens that the KV cache of an engine of the present settings holds, when it was asked and said so."""
    missing_volumes: tuple[str, ...] = ()
    """PersistentVolumeClaims that the profile's model.source names and that do not exist in the pool's namespace."""
    may_roll: bool = True
    """A rollout may begin or is under way; False while too many other pools are being rolled out."""
    spoken_for: int = 0
    """Free slices of the pool's kind that the rollouts of other pools are about to take."""
    disagreement: float = 0.0
    """Seconds for which the scheduler has refused the pool's pods for want of slices that the inventory called free at every look."""

    @property
    def cordoned_nodes(self) -> frozenset[str]:
        """Nodes that somebody empties; none while the inventory is unknown."""
        nodes = self.inventory.nodes if self.inventory else ()
        return frozenset(one.node for one in nodes if one.cordoned)

    @property
    def lost_nodes(self) -> frozenset[str]:
        """Nodes of the pool's pods that are not Ready or no longer exist; none while the inventory is unknown."""
        if self.inventory is None:
            return frozenset()
        return frozenset(pod.node for pod in self.pods if pod.node) - {
            one.node for one in self.inventory.nodes if one.ready
        }


def pod_facts(raw: Mapping[str, Any]) -> PodFacts:
    """Read a raw Pod."""
    metadata, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    conditions = {one["type"]: one for one in status.get("conditions") or []}
    scheduled, ready = conditions.get("PodScheduled", {}), conditions.get("Ready", {})
    is_ready = ready.get("status") == "True"
    engine = _named(status.get("containerStatuses"))
    fetching = _named(status.get("initContainerStatuses"), MODEL_FETCH_CONTAINER)
    fetch = _model_fetch(fetching) if fetching else None
    state, last = engine.get("state") or {}, engine.get("lastState") or {}
    # Until the model is there, the engine's container only says that it waits for that.
    first_state = fetching.get("state") or {} if fetch and not fetch.done else state
    waiting = first_state.get("waiting") or {}
    ended = state.get("terminated") or last.get("terminated")
    limits = _named(spec.get("containers")).get("resources", {}).get("limits") or {}
    return PodFacts(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        created_at=_time(metadata.get("creationTimestamp")),
        deleting=metadata.get("deletionTimestamp") is not None,
        phase=status.get("phase", "Pending"),
        started=bool(engine.get("started", False)),
        ready=is_ready,
        scheduled_at=_scheduled_at(spec, scheduled, metadata),
        ready_at=_time(ready.get("lastTransitionTime")) if is_ready else None,
        unschedulable=scheduled.get("message", "") if scheduled.get("reason") == "Unschedulable" else "",
        waiting_reason=waiting.get("reason", ""),
        waiting_message=waiting.get("message", ""),
        restarts=engine.get("restartCount", 0),
        last_exit=_container_exit(ended, replaced="terminated" not in state) if ended else None,
        memory_limit=str(limits.get("memory", "")),
        failure=": ".join(part for part in (status.get("reason"), status.get("message")) if part),
        address=status.get("podIP", ""),
        node=spec.get("nodeName", ""),
        deletion_cost=_deletion_cost(metadata),
        silent=_is_silent(ready, state.get("running") or {}),
        fetch=fetch,
        template=(metadata.get("labels") or {}).get(TEMPLATE_LABEL, ""),
        sandboxed=conditions.get("PodReadyToStartContainers", {}).get("status") != "False",
    )


def _is_silent(ready: Mapping[str, Any], running: Mapping[str, Any]) -> bool:
    # Of a pod that was never ready the condition dates from before its engine ran; so it does after a restart.
    since, runs_since = _time(ready.get("lastTransitionTime")), _time(running.get("startedAt"))
    if ready.get("status") != "False" or since is None or runs_since is None:
        return False
    return since - runs_since > _QUICKEST_START


def _deletion_cost(metadata: Mapping[str, Any]) -> int:
    try:
        return int((metadata.get("annotations") or {}).get(DELETION_COST_ANNOTATION, "0"))
    except ValueError:
        return 0  # the ReplicaSet controller ignores it too


def _named(containers: Iterable[Mapping[str, Any]] | None, name: str = ENGINE_CONTAINER) -> Mapping[str, Any]:
    return next((one for one in containers or () if one["name"] == name), {})


def _model_fetch(raw: Mapping[str, Any]) -> ModelFetch:
    state, last = raw.get("state") or {}, raw.get("lastState") or {}
    ended = state.get("terminated") or last.get("terminated") or {}
    if state.get("terminated", {}).get("exitCode") == 0:
        return ModelFetch(done=True, failure="", found=ended.get("message", ""))
    failed = ended.get("exitCode", 0) != 0
    return ModelFetch(done=False, failure=(ended.get("message") or ended.get("reason", "")) if failed else "")


def _scheduled_at(
    spec: Mapping[str, Any], condition: Mapping[str, Any], metadata: Mapping[str, Any]
) -> datetime | None:
    if condition.get("status") == "True":
        return _time(condition.get("lastTransitionTime")) or _time(metadata.get("creationTimestamp"))
    # The binding is visible in the spec a moment before the condition is.
    return _time(metadata.get("creationTimestamp")) if spec.get("nodeName") else None


def _container_exit(raw: Mapping[str, Any], replaced: bool) -> ContainerExit:
    return ContainerExit(
        reason=raw.get("reason", ""),
        exit_code=raw.get("exitCode", 0),
        message=raw.get("message", ""),
        started_at=_time(raw.get("startedAt")),
        finished_at=_time(raw.get("finishedAt")),
        replaced=replaced,
    )


def _time(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None
