"""What a process holds as the host counts it, to see whether it grows."""

import contextlib
import os
import re
from pathlib import Path

from host_processes import Process


def held_by(process: Process) -> dict[str, int]:
    """Open descriptors, those of them that are connections (or listen for one), and threads. Raises OSError when it has ended."""
    links = []
    for one in (_folder(process) / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            links.append(os.readlink(one))
    sockets = [link for link in links if link.startswith("socket:")]
    return {"descriptors": len(links), "connections": len(sockets), "threads": _status(process, "Threads")}


def memory_of(process: Process) -> int:
    """Resident memory in KiB. Raises OSError when it has ended."""
    return _status(process, "VmRSS")


def _status(process: Process, field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+)", (_folder(process) / "status").read_text(), re.MULTILINE)
    if found is None:
        raise ProcessLookupError(f"process {process.pid} has ended")
    return int(found[1])


def _folder(process: Process) -> Path:
    return Path("/proc") / str(process.pid)
