"""What controllers and a kubelet would make of a Deployment, on an API that has neither: pods that are ready, and their counts."""

import json
from datetime import UTC, datetime
from typing import Any

from bare_pools import CHILD
from scratch import Scratch


def run_as_a_kubelet_would(scratch: Scratch, child: str = CHILD, addresses: str = "192.0.2.") -> None:
    """Give the Deployment the pods and the status that controllers and a node would give it; `addresses` is how those of pods begin."""
    deployment = scratch.cluster.get("deployment", child, scratch.namespace)
    replicas = deployment["spec"]["replicas"]
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas)
    # Of a controller that is never behind: annotations that the operator writes count as new generations.
    patch_status(scratch, "deployment", child, {"observedGeneration": 1000, **counts})
    template = deployment["spec"]["template"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    true = {"status": "True", "lastTransitionTime": now}
    conditions = [{"type": kind, **true} for kind in ("PodScheduled", "ContainersReady", "Ready")]
    for number in range(replicas):
        name = f"{child}-{number}"
        metadata = {**template["metadata"], "name": name, "namespace": scratch.namespace}
        spec = {**template["spec"], "nodeName": "node"}
        scratch.cluster.apply([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}])
        engine = {"name": "engine", "ready": True, "restartCount": 0, "image": "engine:1", "imageID": ""}
        containers = [{**engine, "state": {"running": {"startedAt": now}}}]
        ip = f"{addresses}{number + 1}"
        status: dict[str, Any] = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "startTime": now}
        patch_status(scratch, "pod", name, {**status, "conditions": conditions, "containerStatuses": containers})


def patch_status(scratch: Scratch, kind: str, name: str, status: dict[str, Any]) -> None:
    """Merge this into the status of an object."""
    where = (kind, name, "-n", scratch.namespace, "--subresource=status", "--type=merge")
    scratch.cluster.kubectl("patch", *where, "-p", json.dumps({"status": status}))
