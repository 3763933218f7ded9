"""End-to-end tests that act on the machine under the embedded cluster are known, so that other clusters are spared them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workslice_cluster.repository import repository

E2E = repository() / "e2e"
pytestmark = pytest.mark.slow

MEANS_OF_THE_MACHINE = re.compile(
    r"^(?:import|from) (host_processes|second_cluster|process_usage)\b|\bcluster_tool\(", re.M
)


def collected(marker: str) -> set[str]:
    """Files with tests that a marker expression selects."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marker, *map(str, E2E.glob("test_*.py"))]
    done = subprocess.run(command, cwd=repository(), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return {Path(line.split("::")[0]).name for line in done.stdout.splitlines() if "::" in line}


def test_what_acts_on_the_machine_is_marked_and_what_asks_the_cluster_is_not() -> None:
    elsewhere = collected("not embedded")
    acting = {file.name for file in E2E.glob("test_*.py") if MEANS_OF_THE_MACHINE.search(file.read_text())}
    assert "test_engine_crashes.py" in acting
    assert acting & elsewhere == set()
    assert {"test_answers_requests.py", "test_bad_input_requests.py", "test_scales_on_queue_depth.py"} <= elsewhere


def test_on_another_cluster_they_are_skipped_and_listed_with_the_reason() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-q", str(E2E / "test_engine_crashes.py")],
        cwd=repository(),
        env={**os.environ, "CLUSTER": "kind"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "acts on the machine under the embedded cluster, and CLUSTER is kind" in done.stdout
    assert "passed" not in done.stdout
