"""Whether the router costs more the longer it runs: the same number of requests again and again, in turns with nginx."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from kernel_accounting import memory_mb
from loads import ANSWERS
from measure import measure
from routers import NGINX, WORKSLICE, Running

REQUESTS = int(os.environ.get("REQUESTS", "200000"))
WINDOWS = 20


@dataclass(frozen=True)
class Endurance:
    """Per window: CPU in microseconds for a request of the router and of nginx, and the router's memory after it."""

    cpu_us: tuple[float, ...]
    nginx_us: tuple[float, ...]
    memory_mb: tuple[float, ...]

    @property
    def cpu_growth(self) -> float:
        """By which part of itself the CPU per request relative to nginx's grows over the whole run."""
        ratios = [ours / theirs for ours, theirs in zip(self.cpu_us, self.nginx_us, strict=True)]
        return slope(ratios) * (WINDOWS - 1) / median(ratios)

    @property
    def memory_growth(self) -> float:
        """Megabytes over the run, without the first windows, in which buffers and tables fill."""
        settled = self.memory_mb[WINDOWS // 4 :]
        return slope(settled) * (len(settled) - 1)


def slope(values: "list[float] | tuple[float, ...]") -> float:
    """Median of the slopes between all pairs (Theil and Sen): a few disturbed windows do not move it."""
    return median((values[b] - values[a]) / (b - a) for a, b in combinations(range(len(values)), 2))


def endure(running: Mapping[str, Running], core: str) -> Endurance:
    cpu: dict[str, list[float]] = {WORKSLICE: [], NGINX: []}
    memory = []
    for window in range(WINDOWS):
        print(
            f"growth: window {window + 1} of {WINDOWS}, {REQUESTS // WINDOWS:,} requests each",
            file=sys.stderr,
            flush=True,
        )
        for name, windows in cpu.items():
            windows.append(measure(ANSWERS, running[name], core, "--requests", str(REQUESTS // WINDOWS))["cpu_us"])
        memory.append(memory_mb(running[WORKSLICE].pid))
    return Endurance(tuple(cpu[WORKSLICE]), tuple(cpu[NGINX]), tuple(memory))
