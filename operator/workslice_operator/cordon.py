"""Replicas on cordoned nodes are replaced before somebody evicts them: how many more the pool runs meanwhile. Pure."""

from workslice_api.slices import slice_resource
from workslice_operator.observed import Observed


def replacements(observed: Observed, desired: int) -> int:
    """Replicas above `desired` that stand in for those on cordoned nodes, as many as there are slices for elsewhere.

    When they are ready the number falls to 0 again, and the drain takes those on cordoned nodes first. Without a free slice
    elsewhere nothing happens before the eviction: it would only be an outage that comes early.
    """
    cordoned = observed.cordoned_nodes
    live = [pod for pod in observed.pods if pod.live]
    stranded = sum(pod.node in cordoned for pod in live)
    if not stranded or observed.profile is None or observed.inventory is None:
        return 0
    wanted = observed.profile.spec.slice
    free = observed.inventory.free(slice_resource(wanted.profiles[0]), wanted.products)
    elsewhere = [pod for pod in live if pod.node not in cordoned]
    still_needed = min(stranded, max(0, desired - sum(pod.ready for pod in elsewhere)))
    placed = sum(pod.scheduled for pod in elsewhere)
    return min(still_needed, free + max(0, placed - max(0, desired - stranded)))
