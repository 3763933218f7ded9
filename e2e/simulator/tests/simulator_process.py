"""A simulated engine as a process, for tests of what only a process can show."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from free_ports import free_port

HOST = "127.0.0.1"
PATIENCE_SECONDS = 20.0


@dataclass(frozen=True)
class Simulator:
    """One that listens."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def ask(self, **fields: object) -> httpx.Response:
        """Ask for a text completion that is exactly as long as `max_tokens`."""
        body = {"prompt": "What comes next?", "max_tokens": 8, "ignore_eos": True} | fields
        return httpx.post(f"{self.url}/v1/completions", json=body, timeout=PATIENCE_SECONDS, trust_env=False)

    def set_faults(self, **faults: object) -> None:
        """Let things go wrong from now on."""
        httpx.put(f"{self.url}/simulator/faults", json=faults, timeout=5, trust_env=False).raise_for_status()

    def value(self, name: str) -> float:
        """The sum of a metric."""
        page = httpx.get(f"{self.url}/metrics", timeout=5, trust_env=False).text
        lines = (line for line in page.splitlines() if line.startswith((f"vllm:{name}{{", f"vllm:{name} ")))
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


@contextlib.contextmanager
def simulator(*words: str, fault_route: bool = True, **environment: str) -> Iterator[Simulator]:
    """Start one that works 20 times faster than its slice, and kill it in the end."""
    port = free_port()
    own = ["some/model", "--host", HOST, "--port", str(port), "--sim-speed", "20"]
    own += ["--sim-fault-route"] if fault_route else []
    command = [sys.executable, "-m", "engine_sim", *own, *words]
    process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _listens(port):
            assert process.poll() is None, f"the simulator ended with {process.returncode}"
            assert time.monotonic() < deadline, "the simulator does not listen"
            time.sleep(0.02)
        yield Simulator(process, port)
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
