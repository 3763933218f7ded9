"""Whether a replica that says nothing hangs or only computes: an engine answers GET /health at once while its core works on a prompt.

Only replicas that have been silent for a while are asked, and a replica that hangs is asked until it answers again, so that no
request has to try it. What it has already is left alone: it is answered if the engine goes on.
"""

import asyncio
import logging
import math
import re
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final

from workslice_router.admission import Admission
from workslice_router.ejection import Outcome
from workslice_router.engine_failure import connect_failure
from workslice_router.routing_table import Pool, Replica

SILENT_SECONDS: Final = 3.0
"""How long a request has got no byte when its replica is asked."""
ANSWER_SECONDS: Final = 2.0
"""How long a replica has to answer; with the pause after it less than it is held back for, so that no request tries it meanwhile."""
MISSED_ANSWERS: Final = 2
"""So many answers in a row are missing when a replica hangs: one may be late on a busy node."""
PAUSE_SECONDS: Final = 1.0
CALM_SECONDS: Final = 5.0
"""A replica that has answered is not asked again before."""
_STATUS_OF_THE_LIVING: Final = re.compile(rb"HTTP/1\.[01] [1-4][0-9]{2}[ \r\n]")


class Answer(Enum):
    """What came of a question."""

    WELL = "well"
    MISSING = "missing"
    """Nothing in time, or the engine itself says that it is dead."""
    NOT_ASKED = "not asked"
    """The router had no file, port or memory left to ask: that says nothing about the replica."""


log = logging.getLogger("workslice_router.hung_replica")


class HungReplicas:
    """Asks replicas, one task for each that is silent."""

    def __init__(
        self,
        admission: Admission,
        start_task: Callable[[Coroutine[Any, Any, None]], None],
        clock: Callable[[], float],
    ) -> None:
        self._admission = admission
        self._start_task = start_task
        self._clock = clock
        self.silent_seconds = SILENT_SECONDS

    def suspect(self, pool: Pool, replica: Replica) -> None:
        """A request to this replica has been silent for `silent_seconds`."""
        if self._clock() >= replica.ask_after:
            replica.ask_after = math.inf
            self._start_task(self._ask_until_it_answers(pool, replica))

    async def _ask_until_it_answers(self, pool: Pool, replica: Replica) -> None:
        missed = 0
        try:
            while replica.listed and (answer := await ask(replica.host, replica.port)) is not Answer.WELL:
                missed += answer is Answer.MISSING
                if missed == MISSED_ANSWERS and answer is Answer.MISSING:
                    log.warning(
                        "a replica hangs: it gets no requests until it answers GET /health", extra=_key(replica)
                    )
                if missed >= MISSED_ANSWERS:
                    self._admission.hold_back(pool, replica)
                await asyncio.sleep(PAUSE_SECONDS)
            if missed >= MISSED_ANSWERS and replica.listed:
                log.info("a replica that hung answers again", extra=_key(replica))
                self._admission.well_again(pool, replica)
        finally:
            replica.ask_after = self._clock() + CALM_SECONDS


async def ask(host: str, port: int) -> Answer:
    """Ask an engine for its health."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"GET /health HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n\r\n")
                line = await reader.readline()
            finally:
                writer.transport.abort()
    except (OSError, ValueError) as error:  # the latter from names that DNS cannot have, and from endless lines
        own_fault = connect_failure(error).outcome is Outcome.ROUTER_FAULT
        return Answer.NOT_ASKED if own_fault else Answer.MISSING
    # 404 from an engine without this path is an answer too, a server error is none.
    return Answer.WELL if _STATUS_OF_THE_LIVING.match(line) else Answer.MISSING


def _key(replica: Replica) -> dict[str, Any]:
    return {"fields": {"replica": replica.uid, "address": f"{replica.host}:{replica.port}"}}
