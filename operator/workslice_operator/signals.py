"""Reads every router's /state. A router that does not answer is unknown, never zero.

With `engine_metrics.py` the only home of httpx in the operator.
"""

import asyncio
import logging
from datetime import UTC, datetime

import httpx
from pydantic import ValidationError

from workslice_api.state import RouterState
from workslice_operator.demand import Answer, RouterEndpoint, queue_signal, router_endpoints
from workslice_operator.kube_api import ENDPOINT_SLICES, Kube, KubeError
from workslice_operator.metrics import Metrics
from workslice_operator.observed import QueueSignal, RouterReport
from workslice_operator.router_report import router_report

ANSWER_TIMEOUT = 1.5
SHORTEST_SECONDS = 0.25
"""Between two readings, however many requests come for pools that sleep."""
STALE_SECONDS = 10.0
"""A signal older than this is unknown: the reading loop itself may hang or the API be away."""

RouterHttp = httpx.AsyncClient

log = logging.getLogger(__name__)


class RouterSignals:
    """The routers' last answers."""

    def __init__(self, kube: Kube, http: RouterHttp, namespace: str, service: str, metrics: Metrics) -> None:
        self._kube = kube
        self._http = http
        self._namespace = namespace
        self._service = service
        self._metrics = metrics
        self._answers: tuple[Answer, ...] = ()
        self._read_at = float("-inf")
        self._asked_at = datetime.min.replace(tzinfo=UTC)
        self._complaint = ""
        self._said: dict[str, tuple[bytes, RouterState]] = {}
        """What each router said last: at rest it says the same, and with many pools that is long."""

    def signal(self, pool: str) -> QueueSignal | None:
        """Demand of a pool (namespace/name), or None while unknown."""
        return None if self._stale else queue_signal(self._answers, pool)

    def report(self, pool: str) -> RouterReport | None:
        """What the routers say of a pool's replicas (namespace/name), or None while unknown."""
        if self._stale:
            return None
        return router_report(self._answers, pool, self._asked_at)

    @property
    def _stale(self) -> bool:
        return asyncio.get_running_loop().time() - self._read_at > STALE_SECONDS

    async def read(self) -> None:
        """Ask every router once, all at the same time."""
        try:
            labels = f"kubernetes.io/service-name={self._service}"
            slices = await self._kube.list(ENDPOINT_SLICES, self._namespace, labels=labels)
        except KubeError as error:
            self._complain(f"cannot list the routers: {error}")
            return
        asked_at = datetime.now(UTC)
        self._answers = tuple(await asyncio.gather(*map(self._ask, router_endpoints(slices))))
        self._said = {one.endpoint.url: self._said[one.endpoint.url] for one in self._answers if one.state is not None}
        self._asked_at, self._read_at = asked_at, asyncio.get_running_loop().time()
        silent = [answer.endpoint.url for answer in self._answers if answer.state is None and not answer.absent]
        synced = sum(answer.state is not None and answer.state.synced for answer in self._answers)
        unsynced = sum(answer.state is not None and not answer.state.synced for answer in self._answers)
        for state, count in (("synced", synced), ("unsynced", unsynced), ("silent", len(silent))):
            self._metrics.set("routers", count, state)
        if not self._answers:
            where = f"{self._namespace}/{self._service}"
            self._complain(
                f"Service {where} has no router behind it: queue depths are unknown, pools keep their replicas"
            )
        elif silent:
            self._complain(f"no answer from {', '.join(silent)}: queue depths are unknown, pools keep their replicas")
        else:
            self._complain("")

    async def asked_in_vain(self, until: float) -> bool:
        """Wait for a request for a pool that sleeps, until a time of the loop's clock: whether one has come since the last `read`."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        hold = until - began - SHORTEST_SECONDS
        known = [(one.endpoint, one.state.asked_in_vain) for one in self._answers if one.state is not None]
        if hold <= 0 or not known:
            return False
        waiting = {asyncio.ensure_future(self._asked_one_in_vain(endpoint, count, hold)) for endpoint, count in known}
        try:
            while waiting and (left := until - loop.time()) > 0:
                done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if any(not one.cancelled() and one.result() for one in done):
                    await asyncio.sleep(began + SHORTEST_SECONDS - loop.time())
                    return True
        finally:
            for one in waiting:
                one.cancel()
        return False

    async def _asked_one_in_vain(self, endpoint: RouterEndpoint, known: int, seconds: float) -> bool:
        try:
            response = await self._http.get(endpoint.url_of_wait(known, seconds), timeout=seconds + ANSWER_TIMEOUT)
            # A router of an older release knows no such wait.
            return response.is_success and int(response.content) != known
        except (httpx.HTTPError, ValueError) as error:
            log.debug("a router cannot be waited for", extra={"url": endpoint.url, "error": repr(error)})
            return False

    async def _ask(self, endpoint: RouterEndpoint) -> Answer:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                response = await self._http.get(endpoint.url)
            response.raise_for_status()
            said = response.content
            before = self._said.get(endpoint.url)
            state = before[1] if before and before[0] == said else RouterState.model_validate_json(said)
            self._said[endpoint.url] = said, state
            return Answer(endpoint, state)
        except httpx.ConnectError as error:
            return Answer(endpoint, None, refused=_is_refusal(error))
        except (httpx.HTTPError, TimeoutError, ValidationError) as error:
            log.debug("no state from a router", extra={"url": endpoint.url, "error": repr(error)})
            return Answer(endpoint, None)

    def _complain(self, complaint: str) -> None:
        """Log a fault once, and its end."""
        if complaint != self._complaint:
            if complaint:
                log.warning(complaint)
            else:
                log.info("all routers answer")
            self._complaint = complaint


def _is_refusal(error: BaseException | None) -> bool:
    """Whether the host is there and nothing listens; a host that cannot be reached may have a running router on it."""
    while error is not None and not isinstance(error, ConnectionRefusedError):
        error = error.__cause__ or error.__context__
    return error is not None


def router_http() -> RouterHttp:
    """The client for routers: short timeouts, no proxy (pod addresses)."""
    return RouterHttp(timeout=ANSWER_TIMEOUT, trust_env=False, limits=httpx.Limits(keepalive_expiry=30.0))
