"""Asks every engine in rotation for its gauges, each every one to two seconds; an engine that does not tell for long is unknown.

One task looks who is due and starts a short one for each: they end within seconds whatever the engine does, so that there are never
more than MOST_AT_ONCE of them. A page is read over a raw connection of its own and looked through as bytes.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

import httptools

from workslice_router.admission import Admission
from workslice_router.engine_gauges import EngineGauges, read_gauges
from workslice_router.replica_gauges import take_gauges
from workslice_router.routing_table import Pool, Replica, RoutingTable

INTERVAL: Final = 1.5
"""Seconds between two looks at an engine, on average; the jitter makes it one to two."""
_JITTER: Final = 2 / 3
MOST_PER_SECOND: Final = 100
"""Looks at all engines together: with more than 150 of them the interval grows."""
MOST_AT_ONCE: Final = 16
MISSED: Final = 3
"""After so many intervals without an answer the load is unknown."""
ANSWER_SECONDS: Final = 1.0
_TURN_SECONDS: Final = 0.1
_LARGEST_PAGE: Final = 4 * 1024 * 1024
_PIECE: Final = 256 * 1024
_OK: Final = 200
_REQUEST: Final = b"GET /metrics HTTP/1.1\r\nhost: engine\r\naccept: text/plain\r\nconnection: close\r\n\r\n"

log = logging.getLogger("workslice_router.gauge_scrape")


class GaugeScrape:
    """Keeps the gauges of all replicas; `run` does it until it is cancelled."""

    def __init__(
        self,
        table: RoutingTable,
        admission: Admission,
        start_task: Callable[[Coroutine[Any, Any, None]], None],
        clock: Callable[[], float],
        random: Callable[[], float],
        interval: float = INTERVAL,
    ) -> None:
        self._table = table
        self._admission = admission
        self._start_task = start_task
        self._clock = clock
        self._random = random
        self._interval = interval
        self._running = 0

    async def run(self) -> None:
        """Look who is due, ten times a second."""
        while True:
            try:
                self._start_due(self._clock())
            except Exception:
                log.exception("asking the engines for their load failed; it goes on")
            await asyncio.sleep(_TURN_SECONDS * self._interval / INTERVAL)

    def _start_due(self, now: float) -> None:
        everyone = [
            (pool, one) for pool in self._table.pools.values() for one in pool.replicas if one.spec.ready and one.listed
        ]
        interval = max(self._interval, len(everyone) / MOST_PER_SECOND)
        for pool, replica in everyone:
            if replica.gauges is not None and now - replica.gauges_at > MISSED * interval:
                self._take(pool, replica, None, 0)
            if not replica.look_at:  # new; those that appear together are looked at one after the other
                replica.look_at = now + interval * self._random()
        due = sorted((entry for entry in everyone if entry[1].look_at <= now), key=lambda entry: entry[1].look_at)
        for pool, replica in due[: MOST_AT_ONCE - self._running]:
            replica.look_at = now + interval * (1 + _JITTER * (self._random() - 0.5))
            self._running += 1
            self._start_task(self._look(pool, replica))

    async def _look(self, pool: Pool, replica: Replica) -> None:
        try:
            before = replica.sequences
            gauges = await engine_gauges(replica.host, replica.port)
            if replica.listed and (gauges is not None or replica.gauges is None):
                # A request that came or went meanwhile is in the page or not: it counts as ours, not as somebody's whom nobody sees.
                self._take(pool, replica, gauges, max(before, replica.sequences))
        finally:
            self._running -= 1

    def _take(self, pool: Pool, replica: Replica, gauges: EngineGauges | None, own: int) -> None:
        take_gauges(pool, replica, gauges, own, self._clock())
        self._admission.places_changed(pool)


async def engine_gauges(host: str, port: int) -> EngineGauges | None:
    """The gauges of the engine at an address; None when it does not tell within ANSWER_SECONDS."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            page = await _page(host, port)
    except (OSError, ValueError, httptools.HttpParserError) as error:  # ValueError: a name that DNS cannot have
        log.debug(
            "an engine does not tell its load", extra={"fields": {"address": f"{host}:{port}", "error": repr(error)}}
        )
        return None
    return None if page is None else read_gauges(page)


class _Page:
    """The body of a response, as httptools' parser reports it."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0
        self.complete = False

    def on_body(self, data: bytes) -> None:
        self.pieces.append(data)
        self.size += len(data)

    def on_message_complete(self) -> None:
        self.complete = True


async def _page(host: str, port: int) -> bytes | None:
    """The whole page; None when it is cut, too large or no page."""
    reader, writer = await asyncio.open_connection(host, port, limit=_PIECE)
    try:
        writer.write(_REQUEST)
        page = _Page()
        parser = httptools.HttpResponseParser(page)
        while not page.complete and (data := await reader.read(_PIECE)):
            parser.feed_data(data)
            if page.size > _LARGEST_PAGE:
                return None
    finally:
        writer.transport.abort()
    return b"".join(page.pieces) if page.complete and parser.get_status_code() == _OK else None
