"""Whether a replica that says nothing hangs or only computes: an engine answers GET /health at once while its core works on a prompt.

Only replicas that have been silent for a while are asked, and a replica that hangs is asked until it answers again, so that no
request has to try it. What it has already is left alone: it is answered if the engine goes on.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
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
_SERVER_ERROR: Final = 500

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

    def suspect(self, pool: Pool, replica: Replica) -> None:
        """A request to this replica has been silent for SILENT_SECONDS."""
        if self._clock() >= replica.ask_after:
            replica.ask_after = math.inf
            self._start_task(self._ask_until_it_answers(pool, replica))

    async def _ask_until_it_answers(self, pool: Pool, replica: Replica) -> None:
        missed = 0
        try:
            while replica.listed and not await answers(replica.host, replica.port):
                missed += 1
                if missed == MISSED_ANSWERS:
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


async def answers(host: str, port: int) -> bool:
    """Whether an engine answers that it is well, or the router has no means to ask it."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"GET /health HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n\r\n")
                words = (await reader.readline()).split()
            finally:
                writer.transport.abort()
    except (OSError, ValueError) as error:  # the latter from names that DNS cannot have, and from endless lines
        return connect_failure(error).outcome is Outcome.ROUTER_FAULT
    # 404 from an engine without this path is an answer too.
    return len(words) > 1 and words[1].isdigit() and int(words[1]) < _SERVER_ERROR


def _key(replica: Replica) -> dict[str, Any]:
    return {"fields": {"replica": replica.uid, "address": f"{replica.host}:{replica.port}"}}
