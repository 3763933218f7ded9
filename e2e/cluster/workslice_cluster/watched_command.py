"""Runs a slow program with its output in a log file, and says every few seconds how far it is."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import last_lines
from workslice_cluster.progress import say

SECONDS_BETWEEN_REPORTS = 15.0


def run_watched(
    argv: Sequence[str | Path],
    *,
    title: str,
    failure: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
    timeout: float = 1800,
) -> None:
    """Run a program to its end, its output in `log` (created with its folder); `timeout` is in seconds.

    Raises ClusterError that begins with `failure` and ends with the program's last lines. The program never outlives this call.
    """
    words = [str(word) for word in argv]
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise ClusterError(f"{failure}: the program {words[0]} is not installed") from error
    try:
        status = _wait(process, began=began, timeout=timeout, title=title, log=log)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status is None:
        raise ClusterError(f"{failure}: not done after {timeout:.0f} s; see {log}\n{_last_words(log)}")
    if status != 0:
        raise ClusterError(f"{failure}: {words[0]} ended with status {status}; see {log}\n{_last_words(log)}")


def _wait(process: subprocess.Popen[bytes], *, began: float, timeout: float, title: str, log: Path) -> int | None:
    """Wait with reports; return the exit status, or None when the time is over."""
    while True:
        left = timeout - (time.monotonic() - began)
        if left <= 0:
            return None
        try:
            return process.wait(min(SECONDS_BETWEEN_REPORTS, left))
        except subprocess.TimeoutExpired:
            newest = _last_words(log, count=1).strip()
            say(f"{title}: {time.monotonic() - began:.0f} s, {newest[:120]}")


def _last_words(log: Path, count: int = 20) -> str:
    return last_lines(log.read_text(errors="replace"), count)
