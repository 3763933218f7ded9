"""How the router leaves: it says so, answers stragglers, lets running requests finish, and only then goes."""

import asyncio
import logging
from typing import Final

from workslice_router.data_path import DataPath
from workslice_router.openai_errors import Reason, refusal

_POLL_SECONDS: Final = 0.05
_FLUSH_SECONDS: Final = 1.0

log = logging.getLogger("workslice_router.shutdown")


async def drain(data_path: DataPath, server: asyncio.AbstractServer, grace: float, patience: float) -> None:
    """Finish within about `grace` + `patience` seconds.

    For `grace` seconds new connections are still accepted, since load balancers hear late that this router goes; every response now
    ends its connection. Then the port closes, idle connections close, and what runs may take `patience` seconds. Whatever is left is
    told that the router is shutting down.
    """
    data_path.shutting_down = True
    log.info(
        "shutting down", extra={"fields": {"running": len(data_path.exchanges), "grace": grace, "patience": patience}}
    )
    await asyncio.sleep(grace)
    server.close()
    await _close_connections(data_path, patience)
    left = len(data_path.exchanges)
    if left:
        log.warning("requests were cut off by --drain-timeout", extra={"fields": {"requests": left}})
        reason = refusal(Reason.SHUTTING_DOWN, retry_after=1)
        data_path.admission.refuse_all_waiting(reason)
        for exchange in tuple(data_path.exchanges):
            exchange.interrupt(reason)
        await _close_connections(data_path, _FLUSH_SECONDS)
    data_path.close()
    log.info("shut down")


async def _close_connections(data_path: DataPath, patience: float) -> None:
    """Close connections as they become idle, until none is left or `patience` seconds are over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    while data_path.connections and loop.time() < deadline:
        for connection in tuple(data_path.connections):
            if connection.idle:
                connection.close_after_flush()
        await asyncio.sleep(_POLL_SECONDS)
