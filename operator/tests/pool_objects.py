"""Raw API objects for the shell's tests."""

from typing import Any

from workslice_api.names import API_VERSION, MANAGED_BY, MANAGED_BY_LABEL, POOL_LABEL


def raw_pool(
    name: str = "chat", namespace: str = "shop", uid: str = "pool-uid", generation: int = 1, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "WorkspacePool",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "generation": generation,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "profileRef": {"name": "small"},
            "model": "tiny",
            "requestClass": {"name": "short", "maxTotalTokens": 512},
        }
        | spec,
    }


def raw_profile(name: str = "small", generation: int = 1, source: str = "/models/tiny") -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "WorkspaceProfile",
        "metadata": {"name": name, "uid": "profile-uid", "generation": generation},
        "spec": {"model": {"source": source}, "slice": {"profiles": ["1g.10gb"]}},
    }


def child(kind: str, name: str = "chat-engine", namespace: str = "shop", **metadata: Any) -> dict[str, Any]:
    """A child as the API returns it; owned by the pool `chat` unless `ownerReferences` says otherwise."""
    owner = {"kind": "WorkspacePool", "name": "chat", "uid": "pool-uid", "controller": True}
    labels = {POOL_LABEL: "chat", MANAGED_BY_LABEL: MANAGED_BY}
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner]} | metadata,
    }


def engine_pod(name: str, created: int = 0) -> dict[str, Any]:
    """A ready replica of the pool `chat`, created so many seconds after midnight."""
    ready = {"type": "Ready", "status": "True"}
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
            "labels": {POOL_LABEL: "chat", MANAGED_BY_LABEL: MANAGED_BY},
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "engine"}]},
        "status": {
            "phase": "Running",
            "podIP": f"ip-{name}",
            "conditions": [placed, ready],
            "containerStatuses": [{"name": "engine", "started": True, "state": {"running": {}}}],
        },
    }
