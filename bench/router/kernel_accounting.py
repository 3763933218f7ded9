"""What the kernel has counted for a process and its children: CPU time to the nanosecond, and memory."""

from collections.abc import Iterator
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """CPU time so far of all threads that live (routers keep theirs)."""
    return sum(int(_read(task / "schedstat").split()[0]) for task in _tasks(pid)) / 1e9


def memory_mb(pid: int) -> float:
    """Proportional set size: what would come free if the process ended."""
    lines = _read(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
    own = next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return own + sum(memory_mb(child) for child in _children(pid))


def _tasks(pid: int) -> Iterator[Path]:
    yield from Path(f"/proc/{pid}/task").iterdir()
    for child in _children(pid):
        yield from _tasks(child)


def _children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in _read(task / "children").split()]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except ProcessLookupError:  # a thread or process that has just ended
        return "0"
