"""Engines as plain processes of the host: the simulator and real vLLM, both with the arguments that the operator renders."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
from demo.waiting import NotYet, wait_until

import manifests
from installed import MODEL
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_cluster import engine_environment, models
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.repository import repository
from workslice_operator.render.engine_args import engine_args

T = TypeVar("T")
START_SECONDS = 240  # 30 on an idle machine; the engines are nice to others, and others may be busy
HOST = "127.0.0.1"
# What images/vllm/Dockerfile sets for the CPU.
_CPU = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCHDYNAMO_DISABLE": "1",
}


@dataclass(frozen=True)
class EngineProcess:
    """One engine that was started."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def client(self, seconds: float = 60) -> httpx.Client:
        """A client of its own; close it."""
        # Without certificates to read, which takes longer than the request.
        return httpx.Client(base_url=self.url, timeout=seconds, trust_env=False, verify=False)

    def wait_until_ready(self) -> None:
        """Return once it answers. Raises ClusterError, with the end of its log when it has ended instead."""

        def look() -> None:
            if self.process.poll() is not None:
                end = self.log.read_text()[-2000:]
                raise ClusterError(f"the engine ended with {self.process.returncode}:\n{end}")
            try:
                httpx.get(f"{self.url}/health", timeout=2, trust_env=False).raise_for_status()
            except httpx.HTTPError as error:
                raise NotYet(repr(error)) from error

        wait_until(f"the engine on port {self.port}", look, seconds=START_SECONDS, every=0.1)

    def children(self) -> list[int]:
        """The processes that it started."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(child) for file in threads for child in file.read_text().split()]

    def kill(self) -> None:
        """End it and its children."""
        for pid in (*(self.children() if self.process.poll() is None else []), self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class Pair:
    """The simulator and the real engine, told the same."""

    simulator: EngineProcess
    real: EngineProcess

    def both(self, do: Callable[[EngineProcess], T]) -> tuple[T, T]:
        """Do something with both at the same time; return what came of it, the simulator's first."""
        with ThreadPoolExecutor(2) as threads:
            first, second = threads.map(do, (self.simulator, self.real))
        return first, second


@contextlib.contextmanager
def pair(name: str, logs: Path, *extra: str, **profile: object) -> Iterator[Pair]:
    """Both engines with the operator's arguments for such a profile and `extra` ones; they start meanwhile."""
    arguments = _arguments(name, *extra, **profile)
    simulator = _start(
        [
            sys.executable,
            "-m",
            "engine_sim",
            *arguments,
            "--block-size",
            "128",
            "--sim-speed",
            "4",
            "--sim-fault-route",
        ],
        logs / f"{name}-simulator.log",
        dict(os.environ),
    )
    try:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | _CPU
        serve = repository() / "images" / "vllm" / "serve_on_cpu.py"
        real = _start(
            [str(engine_environment.python()), str(serve), *arguments], logs / f"{name}-real.log", environment
        )
        try:
            yield Pair(simulator, real)
        finally:
            real.kill()
    finally:
        simulator.kill()


def _arguments(name: str, *extra: str, **fields: object) -> list[str]:
    """What the operator would start the engine with."""
    model = {"source": str(models.ensure(MODEL))}
    engine = manifests.engine("none", *extra)
    profile = WorkspaceProfile.model_validate(manifests.profile(name, "none", model=model, engine=engine, **fields))
    pool = WorkspacePool.model_validate(manifests.pool(name, "default", name, MODEL, drain={"timeout": "20s"}))
    return engine_args(pool, profile)


_ports = threading.Lock()


def _start(command: list[str], log: Path, environment: dict[str, str]) -> EngineProcess:
    with _ports, socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--host", HOST, "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=log.parent,
        )
    return EngineProcess(process, port, log)
