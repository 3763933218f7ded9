"""When the cluster is where it should be."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from api import Api
from fleet import POOLS, ROLLED, Fleet

from workslice_api.names import PROFILE_LABEL

_LABELS = "labelSelector=app.kubernetes.io/managed-by%3Dworkslice"
_ROLLED = f"labelSelector={PROFILE_LABEL.replace('/', '%2F')}%3D{ROLLED}"
CHILDREN = (
    "/apis/apps/v1/deployments",
    "/api/v1/services",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/networkpolicies",
)
LOOK_SECONDS = 2.0
"""A look reads thousands of objects, on the cores of those that are measured."""


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


async def rolling(api: Api, since: dict[tuple[str, str], int]) -> tuple[int, int]:
    """Deployments that have pods of an older template now, and those that are done; `since` holds the generation of each before."""
    now = done = 0
    for one in await api.items(f"{CHILDREN[0]}?{_ROLLED}"):
        metadata, wanted, status = one["metadata"], one["spec"]["replicas"], one["status"]
        if metadata["generation"] == since[metadata["namespace"], metadata["name"]]:
            continue
        seen = status.get("observedGeneration", 0) >= metadata["generation"]
        counts = {status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")}
        done += seen and counts == {wanted}
        now += not seen or status.get("updatedReplicas", 0) < wanted
    return now, done


async def deployments_of(api: Api) -> dict[tuple[str, str], int]:
    """Generation of each Deployment of the pools of the profile that is rolled."""
    found = await api.items(f"{CHILDREN[0]}?{_ROLLED}", metadata_only=True)
    return {(one["metadata"]["namespace"], one["metadata"]["name"]): one["metadata"]["generation"] for one in found}
