"""What an engine's log tells of its end that the pod's status does not hold. Pure.

vLLM is two processes: an API server, which is the container, and an EngineCore behind it. When the core dies the server ends itself
with exit code 0, and of such an end Kubernetes keeps no last words. When the core does not come up, the server's own complaint fills
the few lines that Kubernetes keeps, and the cause stands above them.
"""

import re
from collections.abc import Iterator
from typing import Final

from workslice_operator.last_words import EXCEPTION, clean, last_words
from workslice_operator.observed import ContainerExit

_CORE: Final = "(EngineCore"
_FATAL: Final = "EngineCore encountered a fatal error"
_CORE_GONE: Final = re.compile(r"[Ee]ngine ?core.* (?:exited|died) unexpectedly")
_TELLING: Final = re.compile(
    rf"^\S.*?: error: |\w(?:Error|Exception|Exit|NotFound|Interrupt): |\[type=|{_FATAL}|unexpectedly|shutdown triggered"
)
_ECHO: Final = "EngineDeadError"
"""Every request that was running repeats it."""
_MOST_LINES: Final = 100


def wants_log(ended: ContainerExit) -> bool:
    """Whether only the log can tell why the engine ended."""
    if ended.reason == "OOMKilled":
        return False
    said = last_words(ended.message)
    return said.generic or (ended.exit_code == 0 and not said.line)


def telling_lines(log: str) -> str:
    """The lines of a log that may tell why its engine ended: few, however long it is."""
    return "\n".join([line[:1000] for line in _telling(log)][-_MOST_LINES:])


def _telling(log: str) -> Iterator[str]:
    echoed = False
    for line in log.splitlines():
        if line.startswith("INFO: ") or not _TELLING.search(line):
            continue
        if _ECHO in line:
            if echoed:
                continue
            echoed = True
        yield line


def core_death(log: str) -> str | None:
    """Why the EngineCore process died: its last exception; empty when it died without a word; None when the log tells of neither.

    The complaints of the requests that ran tell only that it died: its own words may stand above what was read.
    """
    lines = log.splitlines()
    began = next((number for number, line in enumerate(lines) if _FATAL in line), len(lines))
    own = [clean(line) for line in lines[began:] if line.startswith(_CORE)]
    cause = next((line for line in reversed(own) if EXCEPTION.match(line)), None)
    if cause is not None:
        return cause
    return "" if began == len(lines) and any(_CORE_GONE.search(line) for line in lines) else None


def was_told_to_end(log: str) -> bool:
    """Whether the engine ended because of a SIGTERM."""
    return "shutdown triggered" in log
