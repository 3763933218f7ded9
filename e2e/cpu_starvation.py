"""For how long processes could have run but got no CPU: on a busy machine a late reaction may be nobody's fault but the machine's."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Final

_LOOK_SECONDS: Final = 0.2


class Starvation:
    """Looks at processes by name again and again; a name may stand for one process after the other."""

    def __init__(self, processes: Callable[[], Mapping[str, int]]) -> None:
        self._processes = processes
        """Process ids, by name."""
        self._waits: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._totals: dict[int, float] = {}

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    def look(self) -> None:
        """Note how long each process has waited for a CPU since the last look."""
        for name, pid in self._processes().items():
            with contextlib.suppress(OSError):  # it has ended
                waited = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
                self._waits[name].append((monotonic(), waited - self._totals.get(pid, 0.0)))
                self._totals[pid] = waited

    def seconds(self, name: str, since: float, until: float) -> float:
        """How long it waited in this time (of the monotonic clock), and between the looks around it."""
        looks = self._waits[name]
        after = next((at for at, _ in looks if at >= until), until)
        return sum(waited for at, waited in looks if since <= at <= after)
