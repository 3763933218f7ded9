"""When the cluster is where it should be."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from api import Api
from fleet import POOLS, ROLLED, Fleet

_LABELS = "labelSelector=app.kubernetes.io/managed-by%3Dworkslice"
CHILDREN = (
    "/apis/apps/v1/deployments",
    "/api/v1/services",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/networkpolicies",
)
LOOK_SECONDS = 1.0


async def until(what: str, there: Callable[[], Awaitable[str]], patience: float) -> float:
    """Seconds until `there` says nothing more of what is missing."""
    began = time.monotonic()
    shown = began
    while missing := await there():
        now = time.monotonic()
        if now - began > patience:
            raise SystemExit(f"{what}: after {patience:.0f} s {missing}")
        if now - shown > 15:
            print(f"  {what}: {missing}", flush=True)
            shown = now
        await asyncio.sleep(LOOK_SECONDS)
    return time.monotonic() - began


async def unconverged(api: Api, fleet: Fleet) -> str:
    """What is missing of children that exist and statuses that are of the present generation."""
    for path in CHILDREN:
        found = await api.items(f"{path}?{_LABELS}", metadata_only=True)
        if len(found) < fleet.pools:
            return f"{fleet.pools - len(found)} of {path.rpartition('/')[2]} are missing"
    old = sum(
        one.get("status", {}).get("observedGeneration") != one["metadata"]["generation"]
        for one in await api.items(POOLS)
    )
    return f"{old} pools have an old status" if old else ""


async def unready(api: Api, fleet: Fleet) -> str:
    """What is missing of ready replicas, as the pools' statuses say."""
    ready = sum(one.get("status", {}).get("readyReplicas", 0) for one in await api.items(POOLS))
    return f"{fleet.replicas_together - ready} replicas are not ready" if ready < fleet.replicas_together else ""


async def rolling(api: Api, of: set[tuple[str, str]], since: dict[tuple[str, str], int]) -> tuple[int, int]:
    """Deployments that are being rolled now, and those that are done; `since` holds the generation of each before."""
    now = done = 0
    for one in await api.items(f"{CHILDREN[0]}?{_LABELS}"):
        key = one["metadata"]["namespace"], one["metadata"]["name"]
        if key not in of or one["metadata"]["generation"] == since[key]:
            continue
        if _complete(one):
            done += 1
        else:
            now += 1
    return now, done


def _complete(deployment: Any) -> bool:
    wanted, status = deployment["spec"]["replicas"], deployment["status"]
    seen = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    return (
        seen
        and status.get("updatedReplicas", 0)
        == status.get("replicas", 0)
        == status.get("availableReplicas", 0)
        == wanted
    )


async def deployments_of(api: Api) -> dict[tuple[str, str], int]:
    """Generation of each Deployment of the pools of the profile that is rolled."""
    pools = {
        (one["metadata"]["namespace"], one["metadata"]["name"])
        for one in await api.items(POOLS)
        if one["spec"]["profileRef"]["name"] == ROLLED
    }
    found = await api.items(f"{CHILDREN[0]}?{_LABELS}", metadata_only=True)
    return {
        (one["metadata"]["namespace"], one["metadata"]["name"]): one["metadata"]["generation"]
        for one in found
        if (one["metadata"]["namespace"], one["metadata"]["ownerReferences"][0]["name"]) in pools
    }
