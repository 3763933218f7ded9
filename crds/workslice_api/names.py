"""Every name that more than one part of Workslice writes or reads: group, labels, annotations, conditions, reasons, ports."""

from enum import StrEnum
from typing import Final

GROUP: Final = "workslice.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CATEGORY: Final = "workslice"
PROFILE_KIND: Final = "WorkspaceProfile"
PROFILE_PLURAL: Final = "workspaceprofiles"
POOL_KIND: Final = "WorkspacePool"
POOL_PLURAL: Final = "workspacepools"

MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "workslice"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
ENGINE_COMPONENT: Final = "engine"
POOL_LABEL: Final = f"{GROUP}/pool"
"""On every child of a pool and on its engine pods; the Service's copy reaches the EndpointSlices that routers watch."""
PROFILE_LABEL: Final = f"{GROUP}/profile"
CLASS_LABEL: Final = f"{GROUP}/class"
TEMPLATE_HASH_ANNOTATION: Final = f"{GROUP}/template-hash"
"""On the engine Deployment: tells a change of size from one that replaces pods."""
READY_TEMPLATE_ANNOTATION: Final = f"{GROUP}/ready-template"
"""On the engine Deployment: the last pod template with which a replica was ready, and the specs that it was rendered from."""
FAILED_TEMPLATE_ANNOTATION: Final = f"{GROUP}/failed-template"
"""On the engine Deployment: the one that was taken back since no replica came up with it; without it that one is tried again."""
RENDERING_ANNOTATION: Final = f"{GROUP}/rendering"
RENDERING_LATEST: Final = "latest"
"""Set by people on a pool: engine pods are replaced when a new version of the operator renders them otherwise."""
PAUSED_ANNOTATION: Final = f"{GROUP}/paused"
"""Set by people on a pool or profile: the operator writes nothing more for it, nor for pools of the profile."""
DELETION_COST_ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"
"""On an engine pod: a ReplicaSet deletes the lowest first, among pods that are equally ready."""

FIELD_MANAGER: Final = "workslice-operator"
STATUS_FIELD_MANAGER: Final = "workslice-operator-status"

ENGINE_CONTAINER: Final = "engine"
MODEL_FETCH_CONTAINER: Final = "model-fetch"
ENGINE_PORT: Final = 8000
ENGINE_PORT_NAME: Final = "http"
ROUTER_PORT: Final = 8000
ROUTER_ADMIN_PORT: Final = 9090
ROUTER_ADMIN_PORT_NAME: Final = "admin"
OPERATOR_METRICS_PORT: Final = 8080


def child_name(pool: str) -> str:
    """Name shared by all children of a pool, distinct from names that users give their own objects."""
    return f"{pool}-engine"


class ConditionType(StrEnum):
    """Condition types of both resources; Ready and Accepted are the ones to wait for."""

    ACCEPTED = "Accepted"
    FITS = "Fits"
    READY = "Ready"
    PROFILE_READY = "ProfileReady"
    SLICES_GRANTED = "SlicesGranted"
    ENGINES_READY = "EnginesReady"
    SCALING = "Scaling"
    DRAINING = "Draining"
    DEGRADED = "Degraded"
    CONFLICT = "Conflict"
    OUTDATED = "Outdated"
    PAUSED = "Paused"


class Reason(StrEnum):
    """Condition and Event reasons. docs/troubleshooting.md explains each; a test holds that."""

    # Degraded, and WorkspaceProfile Accepted
    SPEC_INVALID = "SpecInvalid"
    # WorkspaceProfile Accepted
    VALID = "Valid"
    SLICE_NOT_IN_CLUSTER = "SliceNotInCluster"
    # WorkspaceProfile Fits
    ESTIMATED = "Estimated"
    MEASURED = "Measured"
    DOES_NOT_FIT = "DoesNotFit"
    FOUND_NOT_TO_FIT = "FoundNotToFit"
    SHAPE_UNKNOWN = "ShapeUnknown"
    MEMORY_UNKNOWN = "MemoryUnknown"
    ARGUMENTS_UNKNOWN = "ArgumentsUnknown"
    ESTIMATE_OFF = "EstimateOff"
    # ProfileReady
    PROFILE_FOUND = "ProfileFound"
    PROFILE_NOT_FOUND = "ProfileNotFound"
    PROFILE_NOT_ALLOWED = "ProfileNotAllowed"
    PROFILE_INVALID = "ProfileInvalid"
    PROFILE_DOES_NOT_FIT = "ProfileDoesNotFit"
    CLASS_EXCEEDS_CONTEXT = "ClassExceedsContext"
    # SlicesGranted
    SLICES_AVAILABLE = "SlicesAvailable"
    SLICES_UNKNOWN = "SlicesUnknown"
    NO_FREE_SLICE = "NoFreeSlice"
    UNSCHEDULABLE = "Unschedulable"
    SLICE_CHOSEN = "SliceChosen"
    # EnginesReady
    ALL_READY = "AllReady"
    SCALED_TO_ZERO = "ScaledToZero"
    STARTING = "Starting"
    START_TIMED_OUT = "StartTimedOut"
    WARM_UP_FAILED = "WarmUpFailed"
    CRASH_LOOPING = "CrashLooping"
    ENGINE_FAILED = "EngineFailed"
    OUT_OF_MEMORY = "OutOfMemory"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    MODEL_FETCH_FAILED = "ModelFetchFailed"
    MODEL_VOLUME_MISSING = "ModelVolumeMissing"
    VOLUME_FAILED = "VolumeFailed"
    PODS_REFUSED = "PodsRefused"
    NOT_STARTED = "NotStarted"
    NOT_ANSWERING = "NotAnswering"
    NODE_LOST = "NodeLost"
    # Scaling
    FIXED = "Fixed"
    EXTERNAL = "External"
    STEADY = "Steady"
    SCALED_UP = "ScaledUp"
    SCALED_DOWN = "ScaledDown"
    SCALE_DOWN_DELAYED = "ScaleDownDelayed"
    LIMITED_BY_MAXIMUM = "LimitedByMaximum"
    SIGNAL_UNKNOWN = "SignalUnknown"
    HELD_WHILE_STARTING = "HeldWhileStarting"
    REPLICAS_NOT_USED = "ReplicasNotUsed"
    COLD_START_EXCEEDS_WAIT = "ColdStartExceedsWait"
    # Draining
    NOT_DRAINING = "NotDraining"
    REPLICAS_TERMINATING = "ReplicasTerminating"
    WAITING_FOR_ROUTERS = "WaitingForRouters"
    ROUTERS_UNKNOWN = "RoutersUnknown"
    WAITING_FOR_ENGINE = "WaitingForEngine"
    REMOVING = "Removing"
    HELD_BY_ROLLOUT = "HeldByRollout"
    REPLACING_CORDONED = "ReplacingCordoned"
    # Events of a drain
    DRAIN_STARTED = "DrainStarted"
    DRAIN_CALLED_BACK = "DrainCalledBack"
    DRAIN_WITHDRAWN = "DrainWithdrawn"
    DRAIN_TIMED_OUT = "DrainTimedOut"
    REPLICA_GONE = "ReplicaGone"
    # Degraded
    AS_EXPECTED = "AsExpected"
    APPLY_FAILED = "ApplyFailed"
    NAME_TAKEN = "NameTaken"
    FOREIGN_FIELDS = "ForeignFields"
    FALLBACK_NOT_SERVED = "FallbackNotServed"
    TAKEN_BACK = "TakenBack"
    TEMPLATE_TOO_LONG = "TemplateTooLong"
    # Conflict
    MODEL_OWNED = "ModelOwned"
    MODEL_OWNED_ELSEWHERE = "ModelOwnedElsewhere"
    # Outdated
    RENDERING_WAITS = "RenderingWaits"
    ROLLOUT_WAITS = "RolloutWaits"
    # Paused
    PAUSED = "Paused"
    RESUMED = "Resumed"
    # Ready (derived)
    POOL_READY = "PoolReady"
    POOL_NOT_READY = "PoolNotReady"
