"""Reads a pool's status, for people and for waits."""

from typing import Any

from demo.cluster_client import Cluster
from demo.waiting import NotYet


def condition(obj: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return one condition of an object; an absent one has status `absent`."""
    found = (c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind)
    return next(found, {"type": kind, "status": "absent", "reason": "", "message": ""})


def describe(pool: dict[str, Any]) -> str:
    """Return the pool's state in one line: replicas, queue, and why it is not ready."""
    status = pool.get("status", {})
    ready = condition(pool, "Ready")
    why = "" if ready["status"] == "True" else f": {ready['reason']} {ready['message']}".rstrip()
    return (
        f"{pool['metadata']['name']} {status.get('readyReplicas', 0)}/{status.get('desiredReplicas', 0)} ready, "
        f"queue {status.get('queueDepth', 0)}{why}"
    )


def ready_pools(cluster: Cluster, namespace: str, *names: str) -> list[dict[str, Any]]:
    """Return the pools when all of them are Ready and run the engine image of their profile.

    Raises NotYet that says which are not.
    """
    pools = [cluster.get("workspacepool", name, namespace) for name in names]
    waiting = [describe(pool) for pool in pools if not is_ready(pool)]
    waiting += [f"{pool['metadata']['name']} replaces its engines" for pool in pools if is_rolling(cluster, pool)]
    if waiting:
        raise NotYet("; ".join(waiting))
    return pools


def is_rolling(cluster: Cluster, pool: dict[str, Any]) -> bool:
    """Whether some engine of the pool is not yet, or no longer, the one that its profile asks for."""
    profile = cluster.find("workspaceprofile", pool["spec"]["profileRef"]["name"])
    deployment = cluster.find("deployment", f"{pool['metadata']['name']}-engine", pool["metadata"]["namespace"])
    if profile is None or deployment is None:
        return False
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    return bool(
        image != profile["spec"]["engine"]["image"]
        or status.get("observedGeneration", 0) < deployment["metadata"]["generation"]
        or not (status.get("updatedReplicas", 0) == status.get("replicas", 0) == wanted)
    )


def is_ready(pool: dict[str, Any]) -> bool:
    """Whether the pool is Ready and the operator has seen its latest change."""
    seen: int = pool.get("status", {}).get("observedGeneration", 0)
    return seen >= int(pool["metadata"]["generation"]) and condition(pool, "Ready")["status"] == "True"
