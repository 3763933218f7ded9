"""Objects that tests put on the cluster, as dicts: profiles, pools, namespaces and volumes of their own."""

from pathlib import Path
from typing import Any

Manifest = dict[str, Any]
NO_SUCH_SLICE = "7g.80gb"
"""A slice that the cluster does not have: pods of it stay pending, which costs nothing."""


def namespace(name: str) -> Manifest:
    """A namespace that enforces the strictest Pod Security level."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def profile(
    name: str, image: str, /, *, slice_profile: str = NO_SUCH_SLICE, model_path: str = "tiny", **spec: Any
) -> Manifest:
    """A profile for the CPU engine; keyword arguments replace fields of its spec."""
    whole: Manifest = {
        "model": {"source": f"pvc://models/{model_path}"},
        "slice": {"profiles": [slice_profile]},
        "memory": {"host": "3Gi", "kvCache": "128Mi"},
        "cpu": {"request": "50m"},
        "workspace": {"maxTokens": 8192, "maxConcurrent": 8},
        "engine": engine(image),
    }
    return {
        "apiVersion": "workslice.dev/v1alpha1",
        "kind": "WorkspaceProfile",
        "metadata": {"name": name},
        "spec": whole | spec,
    }


def engine(image: str, *extra_args: str) -> Manifest:
    """The engine part of a profile."""
    return {
        "image": image,
        "version": "0.32.0",
        "extraArgs": ["--enforce-eager", *extra_args],
        "startupTimeout": "5m",
    }


def pool(name: str, namespace: str, profile: str, model: str, /, **spec: Any) -> Manifest:
    """A pool of one fixed replica; keyword arguments replace fields of its spec."""
    whole: Manifest = {
        "profileRef": {"name": profile},
        "model": model,
        "requestClass": {"name": "any", "maxTotalTokens": 8192},
        "replicas": 1,
        "scaling": {"mode": "Fixed"},
        "drain": {"timeout": "5s"},
    }
    return {
        "apiVersion": "workslice.dev/v1alpha1",
        "kind": "WorkspacePool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": whole | spec,
    }


def model_volume(namespace: str, models: Path) -> list[Manifest]:
    """A claim named `models` in the namespace, bound to the folder of models on the node."""
    return volume(namespace, "models", models, "ReadOnlyMany")


def volume(namespace: str, claim: str, folder: Path, access: str) -> list[Manifest]:
    """A claim in the namespace, bound to a folder on the node."""
    name = f"{namespace}-{claim}"
    shared = {"accessModes": [access], "storageClassName": ""}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": shared
            | {
                "capacity": {"storage": "1Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"namespace": namespace, "name": claim},
                "hostPath": {"path": str(folder), "type": "Directory"},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": namespace},
            "spec": shared | {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
        },
    ]


def preferring(node: str) -> Manifest:
    """A pool's template that goes to the node while it can."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
    return {"affinity": {"nodeAffinity": wish}}
