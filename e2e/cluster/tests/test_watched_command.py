import sys
import time
from pathlib import Path

import pytest

from workslice_cluster import watched_command
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.watched_command import run_watched


def run_python(program: str, log: Path, timeout: float = 60) -> None:
    run_watched([sys.executable, "-c", program], title="program", failure="it failed", log=log, timeout=timeout)


def test_a_failure_carries_the_programs_last_words_and_names_the_log(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"(?s)it failed.*status 3.*log.*no such flag"):
        run_python("import sys; print('no such flag'); sys.exit(3)", tmp_path / "log")


def test_a_slow_program_is_reported_with_its_newest_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setattr(watched_command, "SECONDS_BETWEEN_REPORTS", 0.01)
    monkeypatch.setattr(watched_command, "say", lambda text: seen.touch() if "unpacking" in text else None)
    run_python(
        "import pathlib, time; print('unpacking', flush=True)\n"
        f"while not pathlib.Path({str(seen)!r}).exists(): time.sleep(0.01)",
        tmp_path / "log",
    )
    assert seen.exists()


def test_a_program_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE);"
        "print(child.pid, flush=True); child.wait()"
    )
    with pytest.raises(ClusterError, match="not done after 1 s"):
        run_python(program, tmp_path / "log", timeout=1)
    child = int((tmp_path / "log").read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}/exe").exists():
        assert time.monotonic() < deadline, "the child outlived its parent"


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no-such-program is not installed"):
        run_watched(["no-such-program"], title="program", failure="it failed", log=tmp_path / "log")
