"""Pods whose readiness comes and goes, so many a minute, in random pools."""

import asyncio
import random
from datetime import UTC, datetime
from typing import Any

from api import MERGE, Api, Refused


async def churn(api: Api, per_minute: int, seconds: float, seed: int = 1) -> int:
    """Returns how many changes there were: every pod goes and, a moment later, comes back."""
    chance = random.Random(seed)
    pods = [one for one in await api.items("/api/v1/pods") if one["status"].get("phase") == "Running"]
    loop = asyncio.get_running_loop()
    began, changes = loop.time(), 0
    away: list[Any] = []
    under_way: set[asyncio.Task[None]] = set()
    while (elapsed := loop.time() - began) < seconds or away:
        if changes >= elapsed * per_minute / 60 and elapsed < seconds:
            await asyncio.sleep(0.005)
            continue
        comes_back = bool(away) and (len(away) > per_minute // 30 or elapsed >= seconds)
        pod = away.pop(0) if comes_back else chance.choice(pods)
        if not comes_back:
            away.append(pod)
        task = asyncio.create_task(_set_ready(api, pod, comes_back))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        changes += 1
    await asyncio.gather(*under_way)
    return changes


async def _set_ready(api: Api, pod: Any, ready: bool) -> None:
    metadata = pod["metadata"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        one | ({"status": str(ready), "lastTransitionTime": now} if one["type"] in ("Ready", "ContainersReady") else {})
        for one in pod["status"]["conditions"]
    ]
    containers = [one | {"ready": ready} for one in pod["status"]["containerStatuses"]]
    patch = {"status": {"conditions": conditions, "containerStatuses": containers}}
    try:
        await api.request(
            "PATCH", f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status", patch, MERGE
        )
    except Refused as error:
        if error.status != 404:
            raise
