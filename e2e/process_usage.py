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
    return {"descriptors": len(links), "connections": len(sockets), "threads": _number(process, "status", "Threads")}


def memory_of(process: Process) -> int:
    """Memory of its own in KiB, without the files that it maps. Raises OSError when it has ended.

    Counted page by page: the sums that are cheaper to read may be wrong by some hundred KiB.
    """
    return _number(process, "smaps_rollup", "Pss_Anon")


def _number(process: Process, file: str, field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+)", (_folder(process) / file).read_text(), re.MULTILINE)
    if found is None:
        raise ProcessLookupError(f"process {process.pid} has ended")
    return int(found[1])


def _folder(process: Process) -> Path:
    return Path("/proc") / str(process.pid)
