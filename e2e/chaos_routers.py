"""Real router processes that follow a scripted Kubernetes API, and what they say of themselves."""

import asyncio
import contextlib
import functools
import itertools
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from chaos_plan import CALLERS, ROUTERS
from chaos_pods import HOST
from free_ports import free_port
from host_processes import Process
from process_usage import held_by, memory_of
from workslice_cluster import compiled_router
from workslice_router.api_keys import hash_key

DRAIN_SECONDS: Final = 30.0
"""More than any request of a storm takes."""
_DEADLINE_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.05
_compiled = functools.cache(compiled_router.ensure)
_TASKS: Final = re.compile(r"^workslice_router_tasks (\d+)", re.MULTILINE)


def key_of(caller: str) -> str:
    """The API key of a caller."""
    return f"wsk-of-{caller}"


@dataclass(eq=False)
class Router:
    """One router, started again and again on the same ports."""

    name: str
    folder: Path
    kubeconfig: Path
    keys: Path
    port: int = field(default_factory=free_port)
    admin_port: int = field(default_factory=free_port)
    in_rotation: bool = False
    """Whether a Service would send it new connections."""
    modules: Path = field(default_factory=_compiled)
    """The router as its image has it."""
    process: asyncio.subprocess.Process | None = None
    exits: list[tuple[str, int]] = field(default_factory=list)
    """How it was ended, and its exit status."""
    logs: list[Path] = field(default_factory=list)

    async def start(self) -> None:
        """Start it and wait until it is ready."""
        words = ["--host", HOST, "--port", str(self.port), "--admin-port", str(self.admin_port), "--name", self.name]
        words += ["--api-keys", str(self.keys), "--drain-timeout", str(DRAIN_SECONDS), "--log-level", "debug"]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PYTHONPATH": str(self.modules)}
        self.logs.append(self.folder / f"{self.name}-{len(self.logs)}.log")
        with self.logs[-1].open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "workslice_router", *words),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        async with asyncio.timeout(_DEADLINE_SECONDS), self._client() as client:
            while not await _ready(client):
                assert self.process.returncode is None, self.logs[-1].read_text()[-2000:]
                await asyncio.sleep(_LOOK_SECONDS)
        self.in_rotation = True

    async def end(self, how: signal.Signals) -> None:
        """End it by a signal and wait for that."""
        assert self.process is not None
        self.in_rotation = False
        self.process.send_signal(how)
        async with asyncio.timeout(DRAIN_SECONDS + _DEADLINE_SECONDS):
            self.exits.append((how.name, await self.process.wait()))

    async def kill(self) -> None:
        """End it at once, if it runs."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                self.process.kill()
            await self.process.wait()

    async def state(self) -> dict[str, Any]:
        """Its /state. Raises httpx.HTTPError."""
        async with self._client() as client:
            found: dict[str, Any] = (await client.get("/state")).raise_for_status().json()
            return found

    async def metrics(self) -> str:
        """Its /metrics. Raises httpx.HTTPError."""
        async with self._client() as client:
            return (await client.get("/metrics")).raise_for_status().text

    async def held(self) -> dict[str, int]:
        """What the process holds: descriptors, connections, threads, tasks."""
        assert self.process is not None
        found = _TASKS.search(await self.metrics())
        assert found is not None
        return held_by(Process(self.process.pid, "")) | {"tasks": int(found[1])}

    def memory(self) -> int:
        """Its resident memory in KiB."""
        assert self.process is not None
        return memory_of(Process(self.process.pid, ""))

    def log_lines(self) -> Iterator[dict[str, Any]]:
        """All that its runs have logged. Raises ValueError for a line that is no JSON: something escaped its logger."""
        for path in self.logs:
            for line in path.read_text().splitlines():
                try:
                    yield json.loads(line)
                except ValueError as error:
                    raise ValueError(f"{path.name}: not a line of the log: {line}") from error

    def _client(self) -> httpx.AsyncClient:
        url = f"http://{HOST}:{self.admin_port}"
        # A connection for each question: one kept open would count as the router's.
        return httpx.AsyncClient(
            base_url=url, trust_env=False, verify=False, timeout=5, headers={"connection": "close"}
        )


class Routers:
    """All of them."""

    def __init__(self, folder: Path) -> None:
        keys = folder / "keys"
        keys.mkdir()
        for caller in CALLERS:
            (keys / caller).write_text(hash_key(key_of(caller), b"sixteen of salt."))
        self._kubeconfig = folder / "kubeconfig"
        self.all = [Router(f"router-{number}", folder, self._kubeconfig, keys) for number in range(ROUTERS)]

    async def start(self, api_port: int) -> None:
        """Start all; they follow the API on this port."""
        self._kubeconfig.write_text(yaml.safe_dump(_kubeconfig(api_port)))
        await asyncio.gather(*(router.start() for router in self.all))

    async def states(self) -> list[dict[str, Any]]:
        """The states of those that answer."""
        found = await asyncio.gather(*(router.state() for router in self.all), return_exceptions=True)
        return [state for state in found if isinstance(state, dict)]


def replicas_in(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The replicas of a state by UID."""
    pools = state["pools"].values()
    return {replica["uid"]: replica for replica in itertools.chain.from_iterable(pool["replicas"] for pool in pools)}


def _kubeconfig(port: int) -> dict[str, Any]:
    return {
        "current-context": "chaos",
        "contexts": [{"name": "chaos", "context": {"cluster": "chaos", "user": "router"}}],
        "clusters": [{"name": "chaos", "cluster": {"server": f"http://{HOST}:{port}"}}],
        "users": [{"name": "router", "user": {}}],
    }


async def _ready(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/readyz")).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
