"""A stream of an engine, read by a thread while something else happens."""

import threading
from typing import Any

from conformance_cases import Case, text
from engine_processes import EngineProcess


class Stream:
    """Starts at once; the fields are those of a text completion."""

    def __init__(self, engine: EngineProcess, **fields: Any) -> None:
        self.events: list[str] = []
        self.started = threading.Event()
        case = text("", stream=True, **fields)
        self._thread = threading.Thread(target=self._read, args=(engine, case), daemon=True)
        self._thread.start()

    def _read(self, engine: EngineProcess, case: Case) -> None:
        with engine.client() as client, client.stream("POST", case.path, json=case.body) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    self.events.append(line.removeprefix("data: "))
                    self.started.set()

    def end(self) -> list[str]:
        """Wait for the end; return the events."""
        self._thread.join(40)
        assert not self._thread.is_alive(), "the stream does not end"
        return self.events
