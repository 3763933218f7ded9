"""What slices the cluster has and which are taken, from nodes and pods."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from workslice_api.quantity import count_of
from workslice_api.slices import is_slice_resource, slice_of_resource, slice_resource
from workslice_operator.gpu_products import usable_memory

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
_MEMORY_LABEL: Final = re.compile(r"nvidia\.com/(gpu|mig-.+)\.memory")
_FINISHED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True)
class NodeSlices:
    """Slices of one node."""

    node: str
    product: str
    usable: bool
    """Ready and not cordoned."""
    allocatable: Mapping[str, int]
    """Healthy slices by resource; zero entries, which a kubelet keeps after a change of geometry, are left out."""
    used: Mapping[str, int]
    """Slices held by pods that the scheduler has placed here."""
    cordoned: bool = False
    """Takes no new pods: somebody empties it."""
    unhealthy: Mapping[str, int] = field(default_factory=dict)
    """Slices by resource that the device plugin reports as failed: the node has them and gives them to nobody."""
    ready: bool = True
    """Its kubelet is in touch with the cluster."""
    memory_labels: Mapping[str, str] = field(default_factory=dict)
    """What GPU feature discovery says of its slices' memory."""

    def has(self, resource: str) -> bool:
        """Whether there is such a slice here, free or not, healthy or not."""
        return bool(self.allocatable.get(resource, 0) or self.unhealthy.get(resource, 0))

    def free(self, resource: str) -> int:
        """Slices that a pod could get here."""
        return max(0, self.allocatable.get(resource, 0) - self.used.get(resource, 0))


@dataclass(frozen=True)
class SliceInventory:
    """Slices of the cluster."""

    nodes: tuple[NodeSlices, ...] = ()
    waiting: Mapping[str, int] = field(default_factory=dict)
    """Slices that pods without a node wait for, by resource, wherever they may run."""
    memories: dict[tuple[str, tuple[str, ...]], Mapping[str, int]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Answers of `usable_memory`, which every look at a pool asks for and which only the nodes decide."""

    def free(self, resource: str, products: Iterable[str] = ()) -> int:
        """Free slices on usable nodes that carry one of the products (any when none is named)."""
        return sum(node.free(resource) for node in self._matching(products) if node.usable)

    def free_on_unusable_nodes(self, resource: str, products: Iterable[str] = ()) -> Mapping[str, int]:
        """Free slices by node that is cordoned or not ready: capacity that exists but cannot be used now."""
        return {
            node.node: node.free(resource)
            for node in self._matching(products)
            if not node.usable and node.free(resource)
        }

    def exists(self, resource: str, products: Iterable[str] = ()) -> bool:
        """Whether any node has such a slice, free or not, healthy or not."""
        return any(node.has(resource) for node in self._matching(products))

    def usable_memory(self, profile: str, products: Iterable[str] = ()) -> Mapping[str, int]:
        """Bytes that an engine sees on such a slice, by GPU product: the least of its nodes; products that do not tell are left out."""
        asked = profile, tuple(products)
        if asked not in self.memories:
            self.memories[asked] = self._usable_memory(*asked)
        return self.memories[asked]

    def _usable_memory(self, profile: str, products: Iterable[str]) -> Mapping[str, int]:
        found: dict[str, int] = {}
        resource = slice_resource(profile)
        for node in self._matching(products):
            memory = usable_memory(profile, node.product, node.memory_labels) if node.has(resource) else None
            if memory is not None:
                found[node.product] = min(memory, found.get(node.product, memory))
        return found

    def unhealthy(self, resource: str, products: Iterable[str] = ()) -> Mapping[str, int]:
        """Failed slices by node."""
        return {
            node.node: node.unhealthy[resource] for node in self._matching(products) if node.unhealthy.get(resource)
        }

    def free_by_resource(self, products: Iterable[str] = ()) -> Mapping[str, int]:
        """Free slices of every kind on usable nodes, sorted by resource; kinds without a free slice are left out."""
        wanted = tuple(products)
        names = {name for node in self._matching(wanted) for name in node.allocatable}
        counts = {name: self.free(name, wanted) for name in sorted(names)}
        return {name: count for name, count in counts.items() if count}

    def resources(self) -> tuple[str, ...]:
        """Every kind of slice that some node has."""
        return tuple(sorted({name for node in self.nodes for name in node.allocatable}))

    def slices(self) -> tuple[str, ...]:
        """Every kind of slice that some node has, by the name that a profile gives it."""
        named = map(slice_of_resource, self.resources())
        return tuple(one for one in named if one is not None)

    def _matching(self, products: Iterable[str]) -> tuple[NodeSlices, ...]:
        wanted = frozenset(products)
        return tuple(node for node in self.nodes if not wanted or node.product in wanted)


def slice_inventory(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> SliceInventory:
    """Read raw Node and Pod objects of the API; pods need not be filtered."""
    used: dict[str, Counter[str]] = {}
    waiting: Counter[str] = Counter()
    for pod in pods:
        held = holds_slices(pod)
        if held is not None:
            used.setdefault(held[0], Counter()).update(held[1])
        waiting.update(awaited_slices(pod))
    return SliceInventory(
        tuple(
            sorted(
                (node_slices(node, used.get(node["metadata"]["name"], Counter())) for node in nodes),
                key=lambda one: one.node,
            )
        ),
        dict(sorted(waiting.items())),
    )


def requested_slices(pod: Mapping[str, Any]) -> Counter[str]:
    """Slices that a raw pod holds, by resource, as the scheduler counts: what its containers and sidecars need together, or any of
    its init containers with the sidecars that run before it, whichever is more.
    """
    spec = pod.get("spec", {})
    sidecars: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            sidecars += _limits(container)
        else:
            most |= sidecars + _limits(container)
    return most | sum((_limits(one) for one in spec.get("containers") or []), sidecars)


def _limits(container: Mapping[str, Any]) -> Counter[str]:
    return Counter(_slices(container.get("resources", {}).get("limits")))


def holds_slices(pod: Mapping[str, Any]) -> tuple[str, Counter[str]] | None:
    """The node on which a raw pod holds slices, and which; None when it holds none."""
    node = pod.get("spec", {}).get("nodeName")
    if not node or pod.get("status", {}).get("phase") in _FINISHED:
        return None
    slices = requested_slices(pod)
    return (node, slices) if slices else None


def awaited_slices(pod: Mapping[str, Any]) -> Counter[str]:
    """Slices for which a raw pod waits: it has no node, and somebody lets it be scheduled."""
    spec = pod.get("spec", {})
    if spec.get("nodeName") or spec.get("schedulingGates") or "deletionTimestamp" in pod.get("metadata", {}):
        return Counter()
    return requested_slices(pod) if pod.get("status", {}).get("phase") not in _FINISHED else Counter()


def node_slices(node: Mapping[str, Any], used: Mapping[str, int]) -> NodeSlices:
    """Read a raw node; `used` are the slices held on it."""
    status = node.get("status", {})
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or [])
    counts = _slices(status.get("allocatable"))
    failed = {name: count - counts.get(name, 0) for name, count in _slices(status.get("capacity")).items()}
    cordoned = bool(node.get("spec", {}).get("unschedulable", False))
    labels = node["metadata"].get("labels") or {}
    return NodeSlices(
        node=node["metadata"]["name"],
        product=labels.get(PRODUCT_LABEL, ""),
        usable=ready and not cordoned,
        cordoned=cordoned,
        ready=ready,
        allocatable={name: count for name, count in sorted(counts.items()) if count},
        used=dict(sorted(used.items())),
        unhealthy={name: count for name, count in sorted(failed.items()) if count > 0},
        memory_labels={name: label for name, label in sorted(labels.items()) if _MEMORY_LABEL.fullmatch(name)},
    )


def _slices(resources: Mapping[str, Any] | None) -> Mapping[str, int]:
    return {name: count_of(amount) for name, amount in (resources or {}).items() if is_slice_resource(name)}
