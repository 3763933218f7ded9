"""All kubelets and the scheduler of the fake nodes, as a process: `python bench/operator/fake_kubelets.py`.

Places pods where slices are free, says that they run and are ready, and takes deleted ones away. No container starts.
"""

import asyncio
import os
from collections import Counter
from datetime import UTC, datetime
from itertools import count
from typing import Any

import aiohttp
from api import MERGE, Api, Refused, connected

from workslice_operator.slice_inventory import requested_slices

READY_SECONDS = float(os.environ.get("READY_SECONDS", "1.0"))
"""From its place to readiness."""
_AT_ONCE = 24
_AGAIN_SECONDS = 1.0


class FakeKubelets:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._free: Counter[str] = Counter()
        self._held: dict[str, tuple[str, int]] = {}
        """UID → node and slices."""
        self._addresses = count(1)
        self._few = asyncio.Semaphore(_AT_ONCE)
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        for node in await self._api.items("/api/v1/nodes"):
            slices = node["status"].get("allocatable", {})
            self._free[node["metadata"]["name"]] = sum(int(n) for name, n in slices.items() if "/mig-" in name)
        async for kind, pod in self._api.events("/api/v1/pods"):
            self._see(kind, pod)

    def _see(self, kind: str, pod: dict[str, Any]) -> None:
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        if kind == "DELETED":
            node, slices = self._held.pop(uid, ("", 0))
            if node:
                self._free[node] += slices
        elif pod["metadata"].get("deletionTimestamp"):
            if spec.get("nodeName"):
                self._start(self._end(pod))
        elif uid not in self._held:
            slices = sum(requested_slices(pod).values())
            node = spec.get("nodeName") or self._free.most_common(1)[0][0]
            self._free[node] -= slices
            self._held[uid] = (node, slices)
            if pod["status"].get("phase") == "Pending":
                self._start(self._bring_up(pod, node))

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _bring_up(self, pod: dict[str, Any], node: str) -> None:
        path = _path(pod)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        name = {"name": pod["metadata"]["name"]}
        async with self._few:
            await self._try(
                "POST", f"{path}/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": name, "target": target}
            )
        await asyncio.sleep(READY_SECONDS)
        async with self._few:
            await self._try("PATCH", f"{path}/status", {"status": running(pod, next(self._addresses))})

    async def _end(self, pod: dict[str, Any]) -> None:
        async with self._few:
            await self._try(
                "DELETE", _path(pod), {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
            )

    async def _try(self, method: str, path: str, body: Any) -> None:
        """Until the API has taken it: a pod that is forgotten here would never be ready, or never go."""
        while True:
            try:
                await self._api.request(method, path, body, MERGE if method == "PATCH" else "application/json")
                return
            except Refused as error:
                if error.status in (404, 409):
                    return
                if error.status != 429 and error.status < 500:
                    raise
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(_AGAIN_SECONDS)


def running(pod: dict[str, Any], number: int) -> dict[str, Any]:
    """The status of a pod whose engine answers."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    address = f"10.206.{number // 250 % 250}.{number % 250 + 1}"
    true = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "PodScheduled")
    containers = [
        {
            "name": one["name"],
            "image": one["image"],
            "imageID": "none",
            "ready": True,
            "started": True,
            "restartCount": 0,
        }
        | {"state": {"running": {"startedAt": now}}}
        for one in pod["spec"]["containers"]
    ]
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "conditions": [{"type": one, "status": "True", "lastTransitionTime": now} for one in true],
        "containerStatuses": containers,
    }


def _path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


async def _main() -> None:
    os.nice(10)  # in a cluster they are other machines
    async with connected() as api:
        await FakeKubelets(api).run()


if __name__ == "__main__":
    asyncio.run(_main())
