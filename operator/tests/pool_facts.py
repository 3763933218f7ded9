"""Factories for the facts that plans are made from."""

from datetime import UTC, datetime, timedelta
from typing import Any

from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.installation import Installation
from workslice_operator.observed import ContainerExit, Observed, PodFacts
from workslice_operator.render.deployment import deployment
from workslice_operator.rollout_facts import DeploymentFacts
from workslice_operator.slice_inventory import NodeSlices, SliceInventory
from workslice_operator.template_choice import TemplateChoice
from workslice_operator.template_record import rendered_record

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
SLICE = "nvidia.com/mig-1g.10gb"
LARGE_SLICE = "nvidia.com/mig-3g.40gb"
INSTALLATION = Installation(
    namespace="workslice",
    router_selector={"app.kubernetes.io/component": "router"},
    operator_selector={"app.kubernetes.io/component": "operator"},
)
LLAMA_SHAPE = {
    "parameters": 8_030_261_248,
    "layers": 32,
    "hiddenSize": 4096,
    "intermediateSize": 14336,
    "kvHeads": 8,
    "headSize": 128,
    "vocabulary": 128_256,
}
"""A model.shape of eight billion parameters: 15 GiB of weights."""


def make_pool(name: str = "short", status: dict[str, Any] | None = None, **spec: Any) -> WorkspacePool:
    base = {"profileRef": {"name": "small"}, "model": "tiny", "requestClass": {"name": "short", "maxTotalTokens": 2048}}
    metadata = {"name": name, "namespace": "shop", "uid": "pool-uid", "generation": 3}
    return WorkspacePool.model_validate({"metadata": metadata, "spec": base | spec, "status": status or {}})


def make_profile(**spec: Any) -> WorkspaceProfile:
    base = {"model": {"source": "/models/tiny"}, "slice": {"profiles": ["1g.10gb"]}}
    return WorkspaceProfile.model_validate({"metadata": {"name": "small", "generation": 2}, "spec": base | spec})


def make_pod(name: str = "short-engine-a", age: float = 60, **facts: Any) -> PodFacts:
    """A pod that has its slice since `age` seconds and is not ready yet."""
    base: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{name}",
        "created_at": NOW - timedelta(seconds=age),
        "deleting": False,
        "phase": "Running",
        "started": False,
        "ready": False,
        "scheduled_at": NOW - timedelta(seconds=age),
        "unschedulable": "",
        "waiting_reason": "",
        "waiting_message": "",
        "restarts": 0,
        "last_exit": None,
        "memory_limit": "8Gi",
        "failure": "",
    }
    return PodFacts(**{**base, **facts})


def ready_pod(name: str = "short-engine-a", **facts: Any) -> PodFacts:
    return make_pod(name, **{"ready": True, "started": True, **facts})


def unplaced_pod(name: str, said: str) -> PodFacts:
    return make_pod(name, phase="Pending", scheduled_at=None, unschedulable=said)


def make_exit(message: str = "", reason: str = "Error", exit_code: int = 1, lived: float = 20) -> ContainerExit:
    return ContainerExit(reason, exit_code, message, NOW - timedelta(seconds=lived + 5), NOW - timedelta(seconds=5))


def make_deployment(
    replicas: int = 1, managed_fields: tuple[dict[str, Any], ...] = (), **facts: Any
) -> DeploymentFacts:
    """The Deployment of the default pool and profile; its pods are of the newest template unless `facts` say otherwise."""
    facts.setdefault("template_hash", rendered_record(make_pool(), make_profile()).hash)
    return DeploymentFacts("short-engine", "deployment-uid", replicas, replicas, managed_fields, **facts)


def make_inventory(node: str = "node-1", usable: bool = True, **counts: tuple[int, int]) -> SliceInventory:
    """Inventory of one node; counts as small=(allocatable, used), large=(allocatable, used)."""
    resources = {"small": SLICE, "large": LARGE_SLICE}
    allocatable = {resources[kind]: have for kind, (have, _) in counts.items()}
    used = {resources[kind]: taken for kind, (_, taken) in counts.items()}
    return SliceInventory((NodeSlices(node, "NVIDIA-H100-80GB-HBM3", usable, allocatable, used),))


def make_observed(pool: WorkspacePool | None = None, profile: Any = "default", **facts: Any) -> Observed:
    return Observed(pool=pool or make_pool(), profile=make_profile() if profile == "default" else profile, **facts)


def new_deployment(pool: WorkspacePool, profile: WorkspaceProfile) -> dict[str, Any]:
    """The manifest of a Deployment of one replica that is not there yet."""
    choice = TemplateChoice(rendered_record(pool, profile))
    return deployment(pool, profile, 1, choice.record.template, choice.annotations)
