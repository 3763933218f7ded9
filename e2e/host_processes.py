"""Processes of pods as the host sees them, so that tests can end or freeze them behind Kubernetes' back."""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from demo.waiting import NotYet, wait_until


@dataclass(frozen=True)
class Process:
    """One process; `pid` is the host's."""

    pid: int
    command: str

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; a process that has ended is fine."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


def of_pod(uid: str) -> list[Process]:
    """All processes of a pod's containers; zombies and the pause process are left out."""
    return sorted(_of_pod(uid), key=lambda one: one.pid)


def one_of_pod(uid: str, part: str) -> Process:
    """The first process of a pod whose command line has this part, once it is there.

    The init of a container, whose command line has the whole of its child's, is left out.
    """

    def look() -> Process:
        found = of_pod(uid)
        named = [one for one in found if part in one.command and not one.command.startswith("tini ")]
        if not named:
            raise NotYet(f"processes: {[one.command[:60] for one in found]}")
        return named[0]

    return wait_until(f"a process {part!r} in pod {uid}", look, seconds=20, every=0.2)


def _of_pod(uid: str) -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            if f"/pod{uid}/" not in (folder / "cgroup").read_text():
                continue
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it has ended meanwhile
            continue
        if command and not command.startswith("/pause"):
            yield Process(int(folder.name), command)
