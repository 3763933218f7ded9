"""What is kept of an object that is watched: thousands of them, so not what nobody reads. Pure.

What is known to be large and unread is left out; a field that is not named here stays, so that reading another one needs no change here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from workslice_operator.kube_api import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
    NODES,
    PODS,
    POOLS,
    PROFILES,
    REPLICA_SETS,
    SERVICES,
    Object,
    Resource,
)
from workslice_operator.rollout_facts import REVISION_ANNOTATION

_OF_CONTAINERS: Final = ("name", "resources", "restartPolicy")
_NOT_OF_STATUSES: Final = ("image", "imageID", "containerID", "allocatedResources", "resources", "volumeMounts", "user")


def _without(raw: Mapping[str, Any], *names: str) -> Object:
    return {name: value for name, value in raw.items() if name not in names}


def _metadata(raw: Mapping[str, Any], *unread: str) -> Object:
    return _without(raw["metadata"], "managedFields", "resourceVersion", *unread)


def kept_pod(raw: Object) -> Object:
    """A pod: of its spec only where it runs and what its containers may have."""
    spec = raw.get("spec", {})
    kept = {name: spec[name] for name in ("nodeName", "schedulingGates") if name in spec}
    for lists in ("containers", "initContainers"):
        if lists in spec:
            kept[lists] = [{name: one[name] for name in _OF_CONTAINERS if name in one} for one in spec[lists] or []]
    status = _without(raw.get("status", {}), "qosClass", "hostIP", "hostIPs", "podIPs", "startTime")
    if "containerStatuses" in status:
        status["containerStatuses"] = [_without(one, *_NOT_OF_STATUSES) for one in status["containerStatuses"] or []]
    if "conditions" in status:
        status["conditions"] = [_without(one, "lastProbeTime") for one in status["conditions"] or []]
    metadata = _metadata(raw, "ownerReferences", "generateName", "generation")
    return {"metadata": metadata, "spec": kept, "status": status}


def kept_deployment(raw: Object) -> Object:
    """A Deployment: with its template, to tell whether it is the one that was applied."""
    return {"metadata": _childs_metadata(raw), "spec": raw.get("spec", {}), "status": raw.get("status", {})}


def kept_replica_set(raw: Object) -> Object:
    """A ReplicaSet: its annotations repeat those of the Deployment, but for its revision."""
    spec = _without(raw.get("spec", {}), "template")
    metadata, annotations = _metadata(raw, "annotations"), raw["metadata"].get("annotations") or {}
    if REVISION_ANNOTATION in annotations:
        metadata["annotations"] = {REVISION_ANNOTATION: annotations[REVISION_ANNOTATION]}
    return {"metadata": metadata, "spec": spec, "status": raw.get("status", {})}


def kept_child(raw: Object) -> Object:
    """Another child: without its status."""
    metadata = _childs_metadata(raw)
    if "generation" not in metadata:  # a Service does not say by it whether anybody has touched it
        metadata["version"] = raw["metadata"].get("resourceVersion")
    return {"metadata": metadata, "spec": raw.get("spec", {})}


def _childs_metadata(raw: Object) -> Object:
    """With those who manage its fields, but for Kubernetes' own controllers, and without the times, which change with every status."""
    managers = [
        _without(one, "time") for one in raw["metadata"].get("managedFields") or [] if not one.get("subresource")
    ]
    return _metadata(raw) | ({"managedFields": managers} if managers else {})


def kept_node(raw: Object) -> Object:
    """A node: without its images, and without the times of its heartbeats, which would look like changes."""
    status = raw.get("status", {})
    conditions = [_without(one, "lastHeartbeatTime") for one in status.get("conditions") or []]
    kept = {name: status[name] for name in ("allocatable", "capacity") if name in status}
    metadata = _metadata(raw, "annotations")
    return {"metadata": metadata, "spec": raw.get("spec", {}), "status": {**kept, "conditions": conditions}}


def kept_own(raw: Object) -> Object:
    """A pool or a profile."""
    return {**raw, "metadata": _metadata(raw)}


KEPT: Final[Mapping[Resource, Callable[[Object], Object]]] = {
    POOLS: kept_own,
    PROFILES: kept_own,
    DEPLOYMENTS: kept_deployment,
    SERVICES: kept_child,
    DISRUPTION_BUDGETS: kept_child,
    NETWORK_POLICIES: kept_child,
    REPLICA_SETS: kept_replica_set,
    PODS: kept_pod,
    NODES: kept_node,
}
"""Every kind that is watched."""
