"""Whether a pool's replicas have their slices, and if not, what stands in the way: the condition SlicesGranted."""

import re
from collections.abc import Sequence
from typing import Final

from workslice_api.names import Reason
from workslice_api.slices import slice_name, slice_resource
from workslice_operator.finding import Finding
from workslice_operator.observed import Observed, PodFacts
from workslice_operator.slice_inventory import SliceInventory

_ADVICE: Final = (
    ("untolerated taint", "add template.tolerations to the pool"),
    (
        "node affinity/selector",
        "compare template.nodeSelector, template.affinity and the profile's slice.products with the labels of the nodes",
    ),
    ("Insufficient memory", "lower memory.host of the profile or free memory on the nodes"),
    ("Insufficient cpu", "lower cpu.request of the profile or free CPU on the nodes"),
    ("Insufficient ephemeral-storage", "free disk space on the nodes"),
    (
        "persistentvolumeclaim",
        "create the PersistentVolumeClaim in the pool's namespace, or correct model.source of the profile",
    ),
    ("unbound immediate PersistentVolumeClaims", "give the PersistentVolumeClaim a volume"),
    ("were unschedulable", "uncordon a node that has free slices"),
    ("Too many pods", "raise the node's limit of pods"),
)


def slices_granted(observed: Observed, desired: int) -> Finding:
    """The condition, for `desired` replicas."""
    live = [pod for pod in observed.pods if pod.live]
    granted = sum(pod.scheduled for pod in live)
    if granted >= desired:
        return Finding(True, Reason.SLICES_AVAILABLE, f"{granted} of {desired} replicas have a slice")
    so_far = f"{granted} of {desired} replicas have a slice"
    if observed.missing_volumes:
        # The scheduler refuses such pods before it looks for slices: it says nothing about them.
        return Finding(None, Reason.SLICES_UNKNOWN, f"{so_far}; the others wait for their model volume")
    refused = [pod for pod in live if not pod.scheduled and pod.unschedulable]
    if not refused or observed.profile is None:
        return Finding(None, Reason.SLICES_UNKNOWN, f"{so_far}; the others are not placed yet")
    return _unplaced(observed, observed.profile.spec.slice.profiles[0], observed.profile.spec.slice.products, refused)


def _unplaced(observed: Observed, profile: str, products: Sequence[str], refused: Sequence[PodFacts]) -> Finding:
    resource = slice_resource(profile)
    short = [pod for pod in refused if f"Insufficient {resource}" in pod.unschedulable]
    where = f" on {' or '.join(products)}" if products else ""
    cordoned = _cordoned(observed.inventory, resource, products)
    if not short:
        said = _scheduler_message(refused[0].unschedulable)
        advice = next((advice for words, advice in _ADVICE if words in said), "see kubectl describe pod")
        count = observed.inventory.free(resource, products) if observed.inventory else 0
        free = f" although {count} × {profile} are free" if count else ""
        return Finding(
            False, Reason.UNSCHEDULABLE, f"{refused[0].name} has no place{free}: {said}; {cordoned or advice}"
        )
    inventory = observed.inventory
    if inventory is None:
        return Finding(
            False, Reason.NO_FREE_SLICE, f"no node has a free {profile}{where} ({len(short)} wanted); {_FREE_ONE}"
        )
    if not inventory.exists(resource, products):
        kinds = ", ".join(slice_name(one) for one in inventory.resources()) or "none"
        message = f"no node has any {profile}{where} ({len(short)} wanted); slices in the cluster: {kinds}; change slice of the profile"
        return Finding(False, Reason.NO_FREE_SLICE, message)
    others = ", ".join(
        f"{count} × {slice_name(other)}"
        for other, count in inventory.free_by_resource(products).items()
        if other != resource
    )
    counts = f"({len(short)} wanted, {inventory.free(resource, products)} free)"
    advice = _failed(inventory, resource, products) or cordoned or _FREE_ONE
    message = f"no node has a free {profile}{where} {counts}; free: {others or 'none of another kind'}; {advice}"
    return Finding(False, Reason.NO_FREE_SLICE, message)


_FREE_ONE: Final = "lower the replicas of a pool that uses this slice, add GPUs, or choose another slice in the profile"


def _cordoned(inventory: SliceInventory | None, resource: str, products: Sequence[str]) -> str:
    nodes = inventory.free_on_unusable_nodes(resource, products) if inventory else {}
    if not nodes:
        return ""
    listed = ", ".join(f"{count} on {node}" for node, count in sorted(nodes.items())[:5])
    return f"free but not usable: {listed} (cordoned or not ready): uncordon or repair the node"


def _failed(inventory: SliceInventory, resource: str, products: Sequence[str]) -> str:
    nodes = inventory.unhealthy(resource, products)
    if not nodes:
        return ""
    listed = ", ".join(f"{count} on {node}" for node, count in sorted(nodes.items())[:5])
    return f"failed: {listed} (the device plugin calls them unhealthy): repair the GPU, see kubectl describe node"


def _scheduler_message(text: str) -> str:
    # "0/3 nodes are available: 2 ..., 1 ... preemption: 0/3 ...": the second half repeats the first.
    return re.sub(r"\.?\s*(preemption:.*|no new claims to deallocate.*)$", "", text, flags=re.DOTALL).strip()[:500]
