"""The operator as a process of the host, with a kubeconfig and a clock of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from demo.waiting import NotYet, wait_until

from bare_api import HOST, SYSTEM
from exposed_metrics import sample
from free_ports import free_port

_START_SECONDS = 60
_WITH_ANOTHER_CLOCK = Path(__file__).with_name("operator_with_another_clock.py")


@dataclass(frozen=True)
class OperatorProcess:
    """One operator that was started."""

    process: "subprocess.Popen[bytes]"
    port: int
    log: Path

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def leads(self) -> bool:
        """Whether it holds the Lease, as it says itself."""
        return sample(HOST, self.port, "workslice_operator_leader") == 1

    def metrics(self) -> str:
        """Its page of metrics."""
        return httpx.get(f"http://{HOST}:{self.port}/metrics", timeout=5, trust_env=False).text

    def said(self, level: str) -> list[str]:
        """Its own messages of a level in its log; kopf calls each request that it repeats an error."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        own = [line for line in lines if line["logger"].startswith("workslice_operator")]
        return [str(line["message"]) for line in own if line["level"] == level]

    def wait_until_it_leads(self) -> None:
        """Return once it works."""

        def look() -> None:
            if not self.alive or not self.leads:
                raise NotYet(self.log.read_text()[-1500:])

        wait_until("the operator to lead", look, seconds=_START_SECONDS, every=0.1)

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Tell it to end, so that the next one need not wait for its Lease; one that has ended is fine."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def operator_process(
    folder: Path, server: str, name: str = "operator", clock_ahead: float = 0.0
) -> Iterator[OperatorProcess]:
    """An operator that reaches the API by a proxy at `server`; its clock is ahead by so many seconds."""
    kubeconfig = folder / f"{name}.kubeconfig"
    named = {"name": name, "context": {"cluster": name, "user": name}}
    document = {
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [named],
        "current-context": name,
    }
    kubeconfig.write_text(json.dumps(document))
    port = free_port()
    flags = [f"--namespace={SYSTEM}", f"--metrics-port={port}"]
    program = [str(_WITH_ANOTHER_CLOCK), str(clock_ahead)] if clock_ahead else ["-m", "workslice_operator"]
    outside = {one: value for one, value in os.environ.items() if not one.startswith("KUBERNETES_")}
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *program, *flags],
            env={**outside, "KUBECONFIG": str(kubeconfig), "POD_NAME": name},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    running = OperatorProcess(process, port, log)
    try:
        yield running
    finally:
        running.stop()
