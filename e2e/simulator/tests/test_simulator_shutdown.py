import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from simulator_process import Simulator, simulator


class Stream:
    """A stream of a simulated engine, read by a thread; `ending` says how it ended."""

    def __init__(self, engine: Simulator, tokens: int, patience: float = 10) -> None:
        self.started = threading.Event()
        self.ending = "none"
        self._arguments = (engine, tokens, patience)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        assert self.started.wait(10)

    def _read(self) -> None:
        engine, tokens, patience = self._arguments
        body = {"prompt": "x", "max_tokens": tokens, "ignore_eos": True, "stream": True}
        url = f"{engine.url}/v1/completions"
        try:
            with httpx.stream("POST", url, json=body, timeout=patience, trust_env=False) as response:
                for line in response.iter_lines():
                    self.started.set()
                    self.ending = line or self.ending
        except httpx.HTTPError as error:
            self.ending = type(error).__name__

    def wait(self) -> str:
        self._thread.join(20)
        return self.ending


def test_sigterm_lets_what_runs_finish_and_refuses_what_is_new() -> None:
    with simulator("--shutdown-timeout", "20", "--sim-speed", "4") as engine:
        stream = Stream(engine, 400)
        engine.process.terminate()
        refused = engine.ask()
        while refused.status_code == 200:
            refused = engine.ask()
        assert refused.status_code == 500
        assert "cannot schedule new futures after shutdown" in refused.text
        assert httpx.get(f"{engine.url}/health", trust_env=False).status_code == 200
        assert stream.wait() == "data: [DONE]"
        assert engine.process.wait(5) == 0


@pytest.mark.parametrize("timeout", ["0", "0.3"])
def test_what_is_not_done_when_the_time_is_up_hangs_until_its_client_goes(timeout: str) -> None:
    """As in vLLM, where only the end of the pod's grace period ends such a connection."""
    with simulator("--shutdown-timeout", timeout, "--sim-speed", "1") as engine:
        stream = Stream(engine, 5000, patience=1)
        engine.process.terminate()
        assert stream.wait() == "ReadTimeout"
        assert engine.process.wait(5) == 0


def test_sigterm_ends_it_before_it_listens() -> None:
    words = ["some/model", "--sim-faults", '{"start_seconds": 60}']
    with subprocess.Popen([sys.executable, "-m", "engine_sim", *words]) as starting:
        while not _catches_sigterm(starting.pid):
            assert starting.poll() is None
        starting.terminate()
        assert starting.wait(5) == 128 + signal.SIGTERM


def _catches_sigterm(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
    return bool(caught >> (signal.SIGTERM - 1) & 1)
