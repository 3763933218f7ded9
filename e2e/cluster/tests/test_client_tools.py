"""kubectl and helm in the cache, whoever asks for them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from workslice_cluster import client_tools
from workslice_cluster.client_tools import OLDEST_HELM, Distribution, ensure


def test_tools_that_two_want_at_the_same_time_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    both_ask, both_fetch = threading.Barrier(2), threading.Barrier(2)

    def fetch(distribution: Distribution, folder: Path) -> None:
        fetched.append(distribution.name)
        with suppress(threading.BrokenBarrierError):
            both_fetch.wait(timeout=0.5)
        folder.mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(client_tools, "_fetch", fetch)

    def ask(_: int) -> dict[str, Path]:
        both_ask.wait(timeout=10)
        return ensure(tmp_path, OLDEST_HELM)

    with ThreadPoolExecutor(2) as askers:
        first, second = askers.map(ask, range(2))
    assert first == second
    assert fetched == [OLDEST_HELM.name]
