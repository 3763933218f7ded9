"""Unit tests run on all cores; a cluster belongs to one worker, and who needs the shared one waits until it is up."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import brought_up_ahead
from tests_on_all_cores import BARE_API, SECOND_CLUSTER, SHARED_CLUSTER, PartByPart, part_of
from workslice_cluster.repository import repository


@pytest.mark.parametrize(
    ("test", "part"),
    [
        ("e2e/test_rollouts.py::test_a[one]", SHARED_CLUSTER),
        ("e2e/test_chaos.py::test_a", SHARED_CLUSTER),
        ("e2e/test_second_node.py::test_a", SECOND_CLUSTER),
        ("e2e/test_older_crds.py::test_a", BARE_API),
        ("e2e/cluster/tests/test_inventory.py::test_a", "e2e/cluster/tests/test_inventory.py"),
        ("router/tests/test_classify.py::test_a", "router/tests/test_classify.py"),
    ],
)
def test_what_uses_the_same_cluster_stays_together_and_other_files_are_parts_of_their_own(test: str, part: str) -> None:
    assert part_of(test, repository()) == part


class Worker:
    """What the scheduler knows of a worker."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.told: list[int] = []

    def send_runtest_some(self, tests: list[int]) -> None:
        self.told += tests

    def shutdown(self) -> None:
        self.shutting_down = True


TESTS = [
    *("crds/tests/test_a.py::test_1", "crds/tests/test_a.py::test_2", "router/tests/test_b.py::test_1"),
    *("e2e/test_chaos.py::test_1", "e2e/test_second_node.py::test_1", "e2e/test_rollouts.py::test_1"),
]


def test_parts_are_handed_out_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdist.scheduler.loadscope.parse_tx_spec_config", lambda _: ["popen", "popen"])
    config = SimpleNamespace(rootpath=repository(), option=SimpleNamespace(loadscopereorder=False))
    scheduler = PartByPart(cast(Any, config))
    workers = [Worker("one"), Worker("two")]
    for worker in workers:
        scheduler.add_node(cast(Any, worker))
        scheduler.add_node_collection(cast(Any, worker), TESTS)
    scheduler.schedule()
    assert [worker.told for worker in workers] == [[0, 1, 3, 5], [2, 4]]


def test_who_needs_the_cluster_waits_until_nobody_brings_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import time; time.sleep(60)")
    monkeypatch.setenv("WORKSLICE_CACHE", str(tmp_path))
    monkeypatch.delenv("WORKSLICE_CLUSTER_STATE", raising=False)
    monkeypatch.setattr(brought_up_ahead, "__file__", str(slow))
    brought_up_ahead.wait()  # nobody does
    bringing = brought_up_ahead.begin()
    waiting = threading.Thread(target=brought_up_ahead.wait, daemon=True)
    try:
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
    finally:
        bringing.kill()
        bringing.wait()
    waiting.join(10)
    assert not waiting.is_alive()
