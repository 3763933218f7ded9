"""Simulated engines as processes that stand for pods: started again when they end, and listed in EndpointSlices as a kubelet would."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from scripted_kubernetes_api import ScriptedApi

import manifests
from chaos_plan import POOLS, Pool
from free_ports import free_port
from workslice_api.names import ENGINE_PORT_NAME, MANAGED_BY, MANAGED_BY_LABEL, POOL_LABEL

NAMESPACE: Final = "chaos"
HOST: Final = "127.0.0.1"
MEAN_ANSWER: Final = 40.0
"""Tokens after which the model ends by itself, where a request lets it."""
_PLACES: Final = 3
"""Requests that one router sends to a replica at once; both together may send more than it runs at once."""
_RUNS_AT_ONCE: Final = 4
_MOST_QUEUED: Final = 5
"""Requests beyond which an engine answers 503; both routers together may send more."""
_SHUTDOWN_SECONDS: Final = 15.0
_NOTICE_SECONDS: Final = 0.3
"""Until the API tells that a container has ended; routers must do without it so long."""
_PROBE_SECONDS: Final = 0.1
_DEADLINE_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that reached an engine; times of the monotonic clock."""

    request: str
    replica: str
    at: float
    left: float | None
    """None: its process ended first, or it is still there."""


@dataclass(eq=False)
class Pod:
    """One engine; it starts again in place until it is deleted."""

    pool: Pool
    uid: str
    api: ScriptedApi
    folder: Path
    port: int = field(default_factory=free_port)
    ready: bool = False
    terminating: bool = False
    start_seconds: float = 0.0
    """How long its next start does not listen."""
    process: asyncio.subprocess.Process | None = None
    _keeper: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        self._keeper = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        """Start it, say when it is ready and when it no longer is, and start it again."""
        while not self.terminating:
            await self._start()
            await self._until_it_answers()
            if not self.terminating:
                self._tell(ready=True)
            assert self.process is not None
            await self.process.wait()
            await asyncio.sleep(_NOTICE_SECONDS)
            self._tell(ready=False)

    async def _start(self) -> None:
        words = [f"sim/{self.uid}", "--served-model-name", self.pool.model, "--host", HOST, "--port", str(self.port)]
        words += ["--max-model-len", str(self.pool.context), "--max-num-seqs", str(_RUNS_AT_ONCE)]
        words += [
            "--shutdown-timeout",
            str(_SHUTDOWN_SECONDS),
            "--sim-mean-answer",
            str(MEAN_ANSWER),
            "--sim-fault-route",
        ]
        words += ["--sim-faults", json.dumps({"start_seconds": self.start_seconds}), "--sim-journal", str(self.journal)]
        words += ["--disable-uvicorn-access-log"]
        self.start_seconds = 0.0
        with (self.folder / f"{self.uid}.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "engine_sim", *words, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )

    async def _until_it_answers(self) -> None:
        assert self.process is not None
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=2) as client:
            while self.process.returncode is None and not await _well(client, f"{self.address}/health"):  # noqa: ASYNC110
                await asyncio.sleep(_PROBE_SECONDS)

    async def set_faults(self, **faults: Any) -> None:
        """Let things go wrong from now on; nothing happens when it has ended."""
        with contextlib.suppress(httpx.HTTPError):
            async with httpx.AsyncClient(trust_env=False, verify=False, timeout=5) as client:
                (await client.put(f"{self.address}/simulator/faults", json=faults)).raise_for_status()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended, and its keeper does not know yet
                os.kill(self.process.pid, number)

    async def ended(self) -> None:
        """Wait until its process, as it now is, has ended."""
        if self.process is not None:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                await self.process.wait()

    def delete(self) -> None:
        """What an API server and a kubelet do when the pod is deleted: routers are told, and the engine gets SIGTERM."""
        self.terminating = True
        self._tell(ready=False)
        self.signal(signal.SIGTERM)

    async def stop(self) -> None:
        """End it at once, and for ever."""
        self.terminating = True
        while self._keeper is not None and not self._keeper.done():
            self.signal(signal.SIGKILL)  # again: it may just be starting
            await asyncio.wait([self._keeper], timeout=_PROBE_SECONDS)
        if self._keeper is not None:
            await self._keeper

    def forget(self) -> None:
        """It is gone from the API."""
        with contextlib.suppress(KeyError):
            self.api.delete("endpointslices", f"{NAMESPACE}/{self.uid}")

    def _tell(self, *, ready: bool) -> None:
        self.ready = ready
        conditions = {"ready": ready, "serving": ready, "terminating": self.terminating}
        metadata = {
            "name": self.uid,
            "namespace": NAMESPACE,
            "labels": {POOL_LABEL: self.pool.name, MANAGED_BY_LABEL: MANAGED_BY},
        }
        endpoint = {"addresses": [HOST], "conditions": conditions, "targetRef": {"kind": "Pod", "uid": self.uid}}
        ports = [{"name": ENGINE_PORT_NAME, "port": self.port}]
        if not self.terminating or f"{NAMESPACE}/{self.uid}" in self.api.objects["endpointslices"]:
            self.api.put("endpointslices", {"metadata": metadata, "ports": ports, "endpoints": [endpoint]})

    @property
    def journal(self) -> Path:
        return self.folder / f"{self.uid}.journal"

    def arrivals(self) -> list[Arrival]:
        """Every request that ever reached it."""
        return list(_arrivals(self.uid, self.journal.read_text().splitlines() if self.journal.exists() else ()))


def _arrivals(uid: str, lines: Any) -> Iterator[Arrival]:
    here: dict[str, float] = {}
    for line in map(json.loads, lines):
        match line["event"]:
            case "started":
                yield from (Arrival(request, uid, at, None) for request, at in here.items())
                here.clear()
            case "arrived":
                here[line["request"]] = line["at"]
            case "left":
                yield Arrival(line["request"], uid, here.pop(line["request"]), line["at"])
    yield from (Arrival(request, uid, at, None) for request, at in here.items())


class Pods:
    """All of them, the deleted ones included, and the pools in the API."""

    def __init__(self, api: ScriptedApi, folder: Path) -> None:
        self.all: list[Pod] = []
        self._api, self._folder = api, folder
        self._names = itertools.count()
        self._draining: dict[str, list[str]] = {pool.name: [] for pool in POOLS}
        for pool in POOLS:
            workspace = {"maxTokens": pool.context, "maxConcurrent": _PLACES}
            api.put("workspaceprofiles", manifests.profile(pool.name, "none", workspace=workspace))
            self._put_pool(pool)

    def add(self, pool: Pool) -> Pod:
        """A new one."""
        pod = Pod(pool, f"{pool.name}-{next(self._names)}", self._api, self._folder)
        self.all.append(pod)
        pod.start()
        return pod

    def living(self, pool: Pool) -> list[Pod]:
        """Those of a pool that nobody has deleted, the oldest first."""
        return [pod for pod in self.all if pod.pool is pool and not pod.terminating]

    def mark_draining(self, pod: Pod, *, marked: bool) -> None:
        """Name it in the status of its pool, or no longer."""
        marks = self._draining[pod.pool.name]
        if marked:
            marks.append(pod.uid)
        elif pod.uid in marks:
            marks.remove(pod.uid)
        self._put_pool(pod.pool)

    async def wait_until_ready(self) -> None:
        """Until every one that is not deleted has said so."""
        async with asyncio.timeout(_DEADLINE_SECONDS):
            while not all(pod.ready for pod in self.all if not pod.terminating):  # noqa: ASYNC110 (a process says so by itself)
                await asyncio.sleep(_PROBE_SECONDS)

    def _put_pool(self, pool: Pool) -> None:
        level = {"timeToFirstToken": pool.first_token, "timePerOutputToken": "50ms"}
        request_class: dict[str, Any] = {"name": pool.class_name, "maxTotalTokens": pool.class_tokens, "slo": level}
        if pool.keep_alive is not None:
            request_class["keepAlive"] = pool.keep_alive
        item = manifests.pool(pool.name, NAMESPACE, pool.name, pool.model, requestClass=request_class, replicas=2)
        item["spec"]["queue"] = {"maxDepth": 64, "maxWait": "25s"}
        item["metadata"] |= {"uid": f"pool-{pool.name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        item["status"] = {"desiredReplicas": 2, "draining": self._draining[pool.name]}
        self._api.put("workspacepools", item)


async def _well(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
