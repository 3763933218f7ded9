"""What reached an engine and when it ended there, as its journal tells."""

import contextlib
import json
import signal
import time
from pathlib import Path

import httpx
import pytest
from simulator_process import Simulator, simulator


def ask(engine: Simulator, name: str, seconds: float, tokens: int = 8) -> None:
    body = {"prompt": "What comes next?", "max_tokens": tokens, "ignore_eos": True}
    headers = {"x-request-id": name}
    httpx.post(f"{engine.url}/v1/completions", json=body, headers=headers, timeout=seconds, trust_env=False)


def noted(journal: Path) -> list[tuple[str, str]]:
    return [(line["event"], line["request"]) for line in map(json.loads, journal.read_text().splitlines())]


def until_noted(journal: Path, event: str, name: str) -> None:
    deadline = time.monotonic() + 10
    while (event, name) not in noted(journal):
        assert time.monotonic() < deadline, noted(journal)
        time.sleep(0.01)


def test_the_journal_has_each_request_when_it_comes_and_when_it_has_gone(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with simulator("--sim-journal", str(journal)) as engine:
        ask(engine, "whole", 10)
        with pytest.raises(httpx.ReadTimeout):
            ask(engine, "left", 0.3, tokens=100_000)
        until_noted(journal, "left", "left")
        ask(engine, "next", 10)
        until_noted(journal, "left", "next")
    assert noted(journal) == [
        ("started", ""),
        ("arrived", "whole"),
        ("left", "whole"),
        ("arrived", "left"),
        ("left", "left"),
        ("arrived", "next"),
        ("left", "next"),
    ]


def test_the_journal_survives_sigkill(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with simulator("--sim-journal", str(journal)) as engine:
        with contextlib.suppress(httpx.ReadTimeout):
            ask(engine, "killed", 0.2, tokens=100_000)
        until_noted(journal, "arrived", "killed")
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
    assert ("arrived", "killed") in noted(journal)
