"""A router as a process in front of simulated engines, for tests of what only real engines' caches and gauges show."""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from simulator_process import HOST, PATIENCE_SECONDS, Simulator

MODEL = "some/model"


@dataclass(frozen=True)
class Router:
    """One that listens."""

    url: str
    admin_url: str

    @contextlib.asynccontextmanager
    async def client(self) -> Any:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=self.url, timeout=60, trust_env=False, limits=limits) as client:
            yield client

    def pool(self) -> dict[str, Any]:
        """Its only pool in /state."""
        state = httpx.get(f"{self.admin_url}/state", timeout=5, trust_env=False).json()
        (pool,) = state["pools"].values()
        return dict(pool)


@contextlib.contextmanager
def router(simulators: Sequence[Simulator], max_concurrent: int, slo: dict[str, str] | None) -> Iterator[Router]:
    """One pool of all the simulators; killed in the end."""
    request_class: dict[str, Any] = {"name": "any", "maxTotalTokens": 16384} | ({"slo": slo} if slo else {})
    profile = {
        "model": {"source": "/models/some"},
        "slice": {"profiles": ["3g.40gb"]},
        "memory": {"host": "8Gi"},
        "workspace": {"maxTokens": 16384, "maxConcurrent": max_concurrent},
        "engine": {"image": "engine", "version": "0.32.0"},
    }
    pool = {"profileRef": {"name": "p"}, "model": MODEL, "requestClass": request_class}
    document = {
        "profiles": [{"name": "p", "spec": profile}],
        "pools": [{"name": "pool", "spec": pool, "replicas": [f"{HOST}:{one.port}" for one in simulators]}],
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pools.yaml"
        file.write_text(json.dumps(document))
        command = [sys.executable, "-m", "workslice_router", "--pools", str(file), "--host", HOST]
        process = subprocess.Popen([*command, "--port", "0", "--admin-port", "0"], stderr=subprocess.PIPE)
        try:
            yield _listening(process)
        finally:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


def _listening(process: subprocess.Popen[bytes]) -> Router:
    assert process.stderr is not None
    for line in process.stderr:
        entry = json.loads(line)
        if entry.get("message") == "serving":
            return Router(f"http://{HOST}:{entry['port']}", f"http://{HOST}:{entry['adminPort']}")
    raise AssertionError(f"the router ended with {process.wait(PATIENCE_SECONDS)}")
