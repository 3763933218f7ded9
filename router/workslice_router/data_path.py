"""What all connections of the router share, and the one timer that ends what takes too long."""

import asyncio
import logging
import random
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from workslice_router.admission import Admission
from workslice_router.api_keys import ApiKeys
from workslice_router.engine_connection import IdleConnections
from workslice_router.estimate import Estimator
from workslice_router.freed_memory import give_back_freed_memory
from workslice_router.hung_replica import HungReplicas
from workslice_router.metrics import Metrics
from workslice_router.openai_errors import Reason, refusal
from workslice_router.routing_table import RoutingTable
from workslice_router.settings import Settings

if TYPE_CHECKING:
    from workslice_router.client_connection import ClientConnection
    from workslice_router.exchange import Exchange

SWEEP_SECONDS: Final = 0.1
_SWEEPS_PER_ROUND: Final = 10
_SMALL_ROUND: Final = 256
_KEY_CHECK_SECONDS: Final = 2.0
_TRIM_SECONDS: Final = 2.0

log = logging.getLogger("workslice_router.data_path")


class DataPath:
    """Everything a connection needs; lives as long as the process. Make it inside the running event loop."""

    def __init__(
        self,
        settings: Settings,
        table: RoutingTable,
        admission: Admission,
        estimator: Estimator,
        metrics: Metrics,
        keys: ApiKeys,
    ) -> None:
        self.settings = settings
        self.table = table
        self.admission = admission
        self.estimator = estimator
        self.metrics = metrics
        self.keys = keys
        self.loop = asyncio.get_running_loop()
        self.idle = IdleConnections()
        self.hung = HungReplicas(admission, self.start_task, self.loop.time)
        self.connections: set[ClientConnection] = set()
        self.exchanges: set[Exchange] = set()
        self.holding: set[ClientConnection] = set()
        """Connections that may hold a piece of a request; those that no longer do are removed by the sweep."""
        self.shutting_down = False
        """Every response says Connection: close."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._id_prefix = b"%020x" % random.getrandbits(80)  # unique, not secret
        self._ids = 0
        self._attempts = 0
        self._next_key_check = 0.0
        self._next_trim = 0.0
        self._unchecked: list[ClientConnection] = []

    def new_request_id(self) -> bytes:
        """An id for a request whose client sent none."""
        self._ids += 1
        return b"%b%012x" % (self._id_prefix, self._ids)

    def engine_request_id(self, request_id: bytes) -> bytes:
        """The id under which an engine knows one attempt: engines need it unique, clients may repeat theirs."""
        self._attempts += 1
        return b"%b-%d" % (request_id, self._attempts)

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run something that must wait (opening a connection); everything else happens in callbacks."""
        task = self.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def sweep_for_ever(self) -> None:
        """Enforce every deadline. One timer for all: a timer per request would cost more than the rest of the request."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                self.sweep(self.loop.time())
            except Exception:
                log.exception("the sweep failed; it goes on")

    def sweep(self, now: float) -> None:
        """End what is overdue at `now` (seconds of the loop's clock)."""
        self.admission.tick()
        self.idle.close_old()
        for exchange in tuple(self.exchanges):
            exchange.check_silence(now)
        self._check_connections(now)
        self._limit_held_bytes()
        if now >= self._next_key_check:
            self._next_key_check = now + _KEY_CHECK_SECONDS
            self.keys.reload_if_changed()
        if now >= self._next_trim:
            self._next_trim = now + _TRIM_SECONDS
            give_back_freed_memory()

    def _check_connections(self, now: float) -> None:
        """Check the deadlines of some connections; each has its turn within a second, however many there are."""
        if not self._unchecked:
            self._unchecked = list(self.connections)
        size = max(_SMALL_ROUND, len(self.connections) // _SWEEPS_PER_ROUND)
        turn, self._unchecked = self._unchecked[:size], self._unchecked[size:]
        for connection in turn:
            connection.check_deadline(now)

    def _limit_held_bytes(self) -> None:
        """When all requests together are too many bytes, forget the bodies of those that run, the largest first, and then refuse the
        largest of those that are being read. Counted ten times a second from what there is, so that no exit of a request can forget to
        count.
        """
        self.holding = {connection for connection in self.holding if connection.held_bytes}
        most = self.settings.max_held_bytes
        held = sum(connection.held_bytes for connection in self.holding)
        held += sum(exchange.held_bytes for exchange in self.exchanges)
        if held <= most:
            return
        for exchange in sorted(self.exchanges, key=lambda one: one.held_bytes, reverse=True):
            held -= exchange.forget_body()
            if held <= most:
                return
        receiving = [connection for connection in self.holding if connection.receiving]
        for connection in sorted(receiving, key=lambda one: one.held_bytes, reverse=True):
            held -= connection.held_bytes
            connection.refuse_body(refusal(Reason.ROUTER_BUSY, retry_after=1))
            if held <= most:
                break

    def close(self) -> None:
        """Reset every connection that is left."""
        for task in self._tasks:
            task.cancel()
        for connection in tuple(self.connections):
            connection.abort()
        self.idle.close_all()
