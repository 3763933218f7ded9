"""Asks one engine for its load; with `signals.py` the only home of httpx in the operator. An engine that does not tell is unknown."""

import asyncio
import logging

import httpx

from workslice_api.names import ENGINE_PORT
from workslice_operator.engine_load import engine_load
from workslice_operator.observed import EngineLoad

ANSWER_TIMEOUT = 2.0
_LARGEST_PAGE = 4 * 1024 * 1024

log = logging.getLogger(__name__)


class EngineMetrics:
    """Reads engines' /metrics pages."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def load(self, address: str) -> EngineLoad | None:
        """Load of the engine at an IP address, or None when it does not tell within 2 s."""
        host = f"[{address}]" if ":" in address else address
        url = f"http://{host}:{ENGINE_PORT}/metrics"
        page = bytearray()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT), self._http.stream("GET", url) as response:
                response.raise_for_status()
                async for piece in response.aiter_bytes():
                    page += piece
                    if len(page) > _LARGEST_PAGE:
                        return None
        except (httpx.HTTPError, TimeoutError) as error:
            log.debug("no load from an engine", extra={"url": url, "error": repr(error)})
            return None
        return engine_load(page.decode(errors="replace"))
