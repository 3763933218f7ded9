"""Which MIG slices the nodes of a cluster offer, and which of them the demo's two pools take."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from workslice_cluster.cluster_error import ClusterError

_RESOURCE = "nvidia.com/mig-"
_PROFILE = re.compile(r"(\d+)g\.(\d+)gb")
MOST_SHORT = 2
"""Replicas that the demo's short pool may grow to; the long one has one."""


def offered_slices(nodes: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return MIG profile to count over all nodes that take pods, small slices first; a node's word for it is `allocatable`."""
    found: Counter[str] = Counter()
    for node in nodes:
        if node["spec"].get("unschedulable"):
            continue
        for resource, count in node.get("status", {}).get("allocatable", {}).items():
            profile = resource.removeprefix(_RESOURCE)
            # Slices with an engine of their own (1g.10gb.me) are for others.
            if resource.startswith(_RESOURCE) and _PROFILE.fullmatch(profile) and int(count) > 0:
                found[profile] += int(count)
    return dict(sorted(found.items(), key=lambda one: _size(one[0])))


def slices_of_the_demo(offered: dict[str, int]) -> tuple[str, str]:
    """Return the slices of the short and of the long pool: the smallest kind with two, and the next larger one.

    A single kind serves both when there are three of it. Raises ClusterError that says what is wanted and what there is.
    """
    if not offered:
        raise ClusterError(
            "no node offers nvidia.com/mig-* slices: the GPUs must be cut into slices and the device plugin must run with "
            "strategy `mixed` (`kubectl describe nodes` shows them under Allocatable)"
        )
    kinds = list(offered)
    for position, short in enumerate(kinds):
        if offered[short] < MOST_SHORT:
            continue
        if larger := kinds[position + 1 :]:
            return short, larger[0]
        if offered[short] > MOST_SHORT:
            return short, short
    listed = ", ".join(f"{count} x {profile}" for profile, count in offered.items())
    raise ClusterError(
        f"the demo takes {MOST_SHORT} slices of one kind and one of a larger kind, or three of one kind; the nodes offer {listed}"
    )


def _size(profile: str) -> tuple[int, int]:
    found = _PROFILE.fullmatch(profile)
    assert found is not None
    return int(found[2]), int(found[1])
