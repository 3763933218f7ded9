"""What the cluster is made of: nodes with slices, namespaces, profiles and pools, as many as asked for."""

from dataclasses import dataclass
from math import ceil
from typing import Any

from api import Api, for_each

from workslice_api.names import API_VERSION
from workslice_cluster.inventory import Inventory, Slice
from workslice_cluster.node_labels import node_labels

CUSTOM = f"/apis/{API_VERSION}"
POOLS, PROFILES = f"{CUSTOM}/workspacepools", f"{CUSTOM}/workspaceprofiles"
ROLLED = "rolled"
"""The profile that is changed; its pools have few replicas, so that rolling them all takes a minute and not ten."""
_SLICES_PER_NODE = 56  # eight GPUs, cut into seven each
_NODE = Inventory("NVIDIA-H100-80GB-HBM3", 8, 81559, (Slice("1g.10gb", _SLICES_PER_NODE, 9984, 16),))
_SMALL_MODEL = {
    "parameters": 494032768,
    "layers": 24,
    "hiddenSize": 896,
    "intermediateSize": 4864,
    "kvHeads": 2,
    "headSize": 64,
    "vocabulary": 151936,
}


@dataclass(frozen=True)
class Fleet:
    """A fifth of the pools share the profile that is rolled and have two replicas; the others share what is left of the pods."""

    pools: int
    namespaces: int
    pods: int

    @property
    def rolled(self) -> int:
        return max(1, self.pools // 5)

    def profile(self, number: int) -> str:
        return ROLLED if number < self.rolled else f"profile-{number % 4}"

    def replicas(self, number: int) -> int:
        others = self.pools - self.rolled
        return 2 if number < self.rolled else max(1, round((self.pods - 2 * self.rolled) / max(1, others)))

    def name(self, number: int) -> tuple[str, str]:
        return f"team-{number % self.namespaces}", f"pool-{number}"

    @property
    def replicas_together(self) -> int:
        return sum(map(self.replicas, range(self.pools)))

    @property
    def nodes(self) -> int:
        return ceil(self.replicas_together * 1.2 / _SLICES_PER_NODE) + 1


async def make_surroundings(api: Api, fleet: Fleet) -> None:
    """All but the pools."""
    await for_each(range(fleet.nodes), lambda number: _make_node(api, number))
    await for_each(
        range(fleet.namespaces), lambda number: _apply(api, "/api/v1/namespaces", "v1", "Namespace", f"team-{number}")
    )
    names = {fleet.profile(number) for number in range(fleet.pools)}
    for name in sorted(names):
        await api.apply(
            f"{PROFILES}/{name}",
            {"apiVersion": API_VERSION, "kind": "WorkspaceProfile", "metadata": {"name": name}, "spec": _profile()},
        )


async def make_pools(api: Api, fleet: Fleet) -> None:
    await for_each(range(fleet.pools), lambda number: _make_pool(api, fleet, number))


async def change_profile(api: Api) -> None:
    """So that every pool of the profile needs new pods."""
    await api.apply(
        f"{PROFILES}/{ROLLED}",
        {
            "apiVersion": API_VERSION,
            "kind": "WorkspaceProfile",
            "metadata": {"name": ROLLED},
            "spec": _profile() | {"engine": {"batchedTokens": 1024}},
        },
    )


def _profile() -> dict[str, Any]:
    return {
        "model": {"source": "Qwen/Qwen2.5-0.5B-Instruct", "shape": _SMALL_MODEL},
        "slice": {"profiles": ["1g.10gb"]},
        "memory": {"host": "8Gi"},
        "workspace": {"maxTokens": 8192, "maxConcurrent": 16},
    }


async def _make_pool(api: Api, fleet: Fleet, number: int) -> None:
    namespace, name = fleet.name(number)
    replicas = fleet.replicas(number)
    by_queue = {"mode": "QueueDepth", "minReplicas": replicas, "maxReplicas": replicas + 4, "targetPerReplica": 8}
    spec = {
        "profileRef": {"name": fleet.profile(number)},
        "model": f"model-{number}",
        **({"scaling": by_queue} if number % 2 else {"replicas": replicas, "scaling": {"mode": "Fixed"}}),
        "requestClass": {"name": "short", "maxTotalTokens": 8192},
    }
    manifest = {
        "apiVersion": API_VERSION,
        "kind": "WorkspacePool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    await api.apply(f"{CUSTOM}/namespaces/{namespace}/workspacepools/{name}", manifest)


async def _make_node(api: Api, number: int) -> None:
    name = f"gpu-{number}"
    capacity = {"cpu": "192", "memory": "2Ti", "pods": "256", "nvidia.com/mig-1g.10gb": str(_SLICES_PER_NODE)}
    labels = {"kubernetes.io/hostname": name, **node_labels(_NODE)}
    await api.apply(
        f"/api/v1/nodes/{name}", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    )
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Fake"}],
    }
    await api.apply(
        f"/api/v1/nodes/{name}/status",
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status},
    )


async def _apply(api: Api, collection: str, version: str, kind: str, name: str) -> None:
    await api.apply(f"{collection}/{name}", {"apiVersion": version, "kind": kind, "metadata": {"name": name}})
