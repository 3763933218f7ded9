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
    (
        "Insufficient nvidia.com/",
        "kubectl describe node tells who holds them; slices behind a taint that the scheduler names need template.tolerations",
    ),
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
_SETTLED_SECONDS: Final = 60.0
"""A disagreement that lasts longer is none of a moment: the scheduler knows something that the inventory does not."""
_TAINT_OF_NODES: Final = re.compile(
    r"untolerated taint(?:\(s\))? \{(?:node-role\.kubernetes\.io/(?:control-plane|master)"
    r"|node\.kubernetes\.io/(?:unreachable|not-ready|unschedulable|out-of-service|network-unavailable)"
    r"|node\.cloudprovider\.kubernetes\.io/(?:uninitialized|shutdown))\b"
)
"""Kubernetes puts them on control planes and on nodes that are lost, cordoned or not yet up: no pool is meant to tolerate them."""


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
    slice_ = observed.profile.spec.slice
    free = free_although_refused(observed)
    if free and may_settle(observed):
        seen = f"the scheduler found no free {slice_.profiles[0]} when it looked last, and {free} are free now: it looks again by itself"
        return Finding(None, Reason.SLICES_UNKNOWN, f"{so_far}; {seen}")
    return _unplaced(observed, slice_.profiles[0], slice_.products, refused)


def free_although_refused(observed: Observed) -> int:
    """Free slices of the pool's kind while its pods are refused for want of one, and of nothing else; 0 when that fits together."""
    refused = [pod.unschedulable for pod in observed.pods if pod.live and not pod.scheduled and pod.unschedulable]
    if not refused or observed.profile is None or observed.inventory is None:
        return 0
    resource = slice_resource(observed.profile.spec.slice.profiles[0])
    if any(_lacks_more_than_a_slice(said, resource) for said in refused):
        return 0
    return observed.inventory.free(resource, observed.profile.spec.slice.products)


def may_settle(observed: Observed) -> bool:
    """Whether the scheduler and the inventory disagree only because either is behind the other by a moment."""
    return observed.disagreement < _SETTLED_SECONDS


def _lacks_more_than_a_slice(said: str, resource: str) -> bool:
    return any(not _fits_a_lack_of_slices(one, resource) for one in _reasons(said))


def _reasons(said: str) -> Sequence[str]:
    # "0/3 nodes are available: 2 Insufficient nvidia.com/mig-1g.10gb, 1 node(s) were unschedulable"
    _, _, reasons = _scheduler_message(said).partition(": ")
    return [one.rstrip(".") for one in reasons.split(", ")]


def _fits_a_lack_of_slices(reason: str, resource: str) -> bool:
    """Whether a node may be out of the question for this reason without anything wrong with the pool: its slices are not free."""
    return (
        reason.endswith((f"Insufficient {resource}", "were unschedulable"))
        or _TAINT_OF_NODES.search(reason) is not None
    )


def _unplaced(observed: Observed, profile: str, products: Sequence[str], refused: Sequence[PodFacts]) -> Finding:
    resource, inventory = slice_resource(profile), observed.inventory
    short = [pod for pod in refused if f"Insufficient {resource}" in pod.unschedulable]
    where = f" on {' or '.join(products)}" if products else ""
    cordoned = _cordoned(inventory, resource, products)
    count = inventory.free(resource, products) if inventory else 0
    if count or not short:  # a node with a free slice refuses for another reason
        pod = next((one for one in refused if _lacks_more_than_a_slice(one.unschedulable, resource)), refused[0])
        said = _scheduler_message(pod.unschedulable)
        advice = _advice(said, resource)
        free = f" although {count} × {profile} are free" if count else ""
        return Finding(False, Reason.UNSCHEDULABLE, f"{pod.name} has no place{free}: {said}; {cordoned or advice}")
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
    counts = f"({len(short)} wanted, 0 free)"
    advice = _failed(inventory, resource, products) or cordoned or _FREE_ONE
    message = f"no node has a free {profile}{where} {counts}; free: {others or 'none of another kind'}; {advice}"
    return Finding(False, Reason.NO_FREE_SLICE, message)


def _advice(said: str, resource: str) -> str:
    # The taint of a control plane, which stands in nearly every message, hides nothing that can be changed.
    telling = [one for one in _reasons(said) if not _fits_a_lack_of_slices(one, resource)]
    found = (advice for text in (", ".join(telling), said) for words, advice in _ADVICE if words in text)
    return next(found, "see kubectl describe pod")


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
