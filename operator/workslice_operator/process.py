"""The process: puts the parts together and runs until told to stop."""

import asyncio
import gc
import logging
import os
import random
import signal
import sys
from datetime import UTC, datetime

from workslice_api.names import POOL_KIND
from workslice_operator.cached_kube import CachedKube, LiveReads
from workslice_operator.crds_present import wait_for_crds
from workslice_operator.engine_metrics import EngineMetrics
from workslice_operator.event_writer import EventWriter
from workslice_operator.follow_demand import follow_demand
from workslice_operator.found_models import FoundModels
from workslice_operator.handlers import registry_of_handlers, watch
from workslice_operator.health_server import health_server
from workslice_operator.json_log import configure_logging
from workslice_operator.keys import Key
from workslice_operator.kube import KubeClient, KubeUnconfigured, connect_kube
from workslice_operator.kube_api import DEPLOYMENTS, POOLS, PROFILES, KubeError, Object, Resource
from workslice_operator.lease import Lease, LeaseLost
from workslice_operator.metrics import Metrics, QueueMetrics
from workslice_operator.model_claims import ModelClaims
from workslice_operator.own_kind import OwnKind
from workslice_operator.profile_reconciler import ProfileReconciler
from workslice_operator.readable import PoolList
from workslice_operator.reconciler import PoolReconciler
from workslice_operator.resync import Resync
from workslice_operator.rolling_pools import RollingPools
from workslice_operator.settings import Settings, parse_settings
from workslice_operator.signals import RouterHttp, RouterSignals, router_http
from workslice_operator.watched_kinds import WatchedKinds
from workslice_operator.work_queue import WorkQueue
from workslice_operator.workers import Workers
from workslice_operator.write_fence import FencedKube, NotLeading

REST_SECONDS = 0.25
"""Between two reconciles of one object."""

log = logging.getLogger("workslice_operator")


def utc_now() -> datetime:
    """The clock of conditions and Events: whole seconds, as Kubernetes stores them."""
    return datetime.now(UTC).replace(microsecond=0)


class Operator:
    """All parts, wired. Built inside the running loop."""

    def __init__(self, settings: Settings, kube: KubeClient, http: RouterHttp) -> None:
        installation = settings.installation
        loop = asyncio.get_running_loop()
        self.kube = kube
        self.metrics = Metrics()
        self.queue: WorkQueue[Key] = WorkQueue(random.random, QueueMetrics(self.metrics), REST_SECONDS)
        self.workers = Workers(self.queue, self._handle, self._failed)
        self.lease = Lease(kube, installation.namespace, settings.identity, lambda: datetime.now(UTC))
        self.signals = RouterSignals(kube, http, installation.namespace, settings.router_service, self.metrics)
        self.own = {resource: OwnKind(kube, resource) for resource in (POOLS, PROFILES)}
        self.kinds = WatchedKinds(kube, self.workers.add, self._cordons_changed)
        watched = {**self.kinds.watched, **self.own}
        fenced = FencedKube(kube, self.lease)
        cached = CachedKube(fenced, watched)
        pools = PoolList(cached, self.own[POOLS])
        events = EventWriter(fenced, settings.identity, utc_now)
        found = FoundModels(self.workers.add)
        self.rolling = RollingPools(self.workers.add, settings.pools_rolled_at_once)
        self.pools = PoolReconciler(
            kube=cached,
            live=LiveReads(fenced, watched),
            parse=pools.parse,
            installation=installation,
            rolling=self.rolling,
            claims=ModelClaims(pools, settings.model_owners, self.workers.add),
            inventory=self.kinds.inventory,
            signal=self.signals.signal,
            routers=self.signals.report,
            engine=EngineMetrics(http).load,
            events=events,
            metrics=self.metrics,
            wake=self.workers.add,
            clock=utc_now,
            monotonic=loop.time,
            found=found,
        )
        self.profiles = ProfileReconciler(
            cached, pools, self.kinds.inventory, events, self.metrics, self.workers.add, utc_now, found
        )
        self.resync = Resync(
            self.own[POOLS].listed,
            self.own[PROFILES].listed,
            self.workers.add,
            lambda: (*self.pools.known_keys(), *self.profiles.known_keys()),
        )
        self.api_seen = False
        self.working = False
        self.metrics.follow("workqueue_depth", lambda: self.queue.depth)
        self.metrics.follow("workqueue_unfinished_work_seconds", lambda: self.queue.unfinished_seconds(loop.time()))
        self.metrics.follow(
            "workqueue_longest_running_processor_seconds", lambda: self.queue.longest_running_seconds(loop.time())
        )
        self.metrics.follow("leader", lambda: float(self.lease.held))
        self.metrics.follow("tasks", lambda: float(len(asyncio.all_tasks())))

    def unhealthy(self) -> str | None:
        """What is wrong with this process so that only a restart helps; None when nothing is."""
        if self.working and not self.workers.alive:
            return "a worker has died"
        if self.working and not self.resync.fresh:
            return "no resync has succeeded for a long time"
        return None

    def unready(self) -> str | None:
        """Why this process could not lead if it had to; waiting for the Lease is ready."""
        return None if self.api_seen else "the Kubernetes API or the CRDs are not there yet"

    async def run(self) -> None:
        """Wait for what is needed (cancel it meanwhile to stop), then work until a signal."""
        await wait_for_crds(self.kube)
        self.api_seen = True
        await self.lease.acquire()
        try:
            async with asyncio.TaskGroup() as group:
                # All made before kopf starts: it would take later ones for its own and wait for them when it stops.
                tasks = [
                    group.create_task(self.lease.keep(self.resync.soon), name="lease"),
                    group.create_task(self.kinds.run(), name="watches"),
                ]
                await self.kinds.tried()
                deployments = self.kinds.watched[DEPLOYMENTS].store
                self.rolling.remember(filter(None, (deployments.get(*name) for name in deployments.uids())))
                tasks += [
                    group.create_task(self.workers.run(), name="workers"),
                    group.create_task(self.resync.run(self._resynced), name="resync"),
                    group.create_task(follow_demand(self.signals, self.pools), name="demand"),
                ]
                await asyncio.sleep(0)
                self.working = True
                handlers = registry_of_handlers(self._spec_changed, self.kube.credentials, self.resync.soon, self._told)
                await watch(handlers)
                for task in tasks:
                    task.cancel()
        finally:
            self.working = False
            await self.lease.release()

    async def _handle(self, key: Key) -> float | None:
        if not self.lease.held:
            raise NotLeading("the lease is not held at the moment")
        return await (self.pools if key.kind == POOL_KIND else self.profiles).reconcile(key)

    def _failed(self, key: Key, error: Exception) -> None:
        self.metrics.count("reconcile_errors_total", key.kind, type(error).__name__)
        if isinstance(error, NotLeading):
            log.debug("not reconciled, will be retried: %s", error, extra={"key": str(key)})
        elif isinstance(error, KubeError | TimeoutError):
            log.warning("not reconciled, will be retried: %s", error or "timed out", extra={"key": str(key)})
        else:
            log.error("reconcile failed, will be retried", extra={"key": str(key)}, exc_info=error)

    def _spec_changed(self, key: Key) -> None:
        self.workers.add(key, urgent=True)

    def _told(self, resource: Resource, raw: Object, there: bool) -> None:
        self.own[resource].told(raw, there)

    def _cordons_changed(self, cordoned: frozenset[str]) -> None:
        log.info("cordoned nodes: %s", ", ".join(sorted(cordoned)) or "none")
        for key in self.pools.known_keys():
            self.workers.add(key)

    def _resynced(self) -> None:
        self.metrics.set("last_resync_timestamp_seconds", utc_now().timestamp())


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(
            number, stop.set
        )  # until kopf has its own: process 1 of a container ignores them by default
    async with connect_kube() as kube, router_http() as http:
        operator = Operator(settings, kube, http)
        server = health_server(settings.metrics_port, operator.unhealthy, operator.unready, operator.metrics.render)
        async with server as port:
            log.info("started; metrics and health at port %d", port)
            working = asyncio.create_task(operator.run(), name="operator")
            stopping = asyncio.create_task(stop.wait(), name="stop")
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not operator.working:
                working.cancel()
            try:
                await working
            except asyncio.CancelledError:
                log.info("stopped while waiting")


def main() -> int:
    """Run the operator; the exit status is 0 only when it was told to stop."""
    settings = parse_settings(sys.argv[1:], os.environ)
    configure_logging(settings.log_level)
    gc.collect()
    gc.freeze()  # what was imported stays: collections that went through it took a seventh of the time of a start with many pools
    failed = True
    try:
        asyncio.run(_run(settings))
        failed = False
    except* (KubeUnconfigured, LeaseLost) as group:
        log.error("%s", group.exceptions[0])
    except* Exception:
        log.exception("ended by an error")
    log.info("stopped")
    return 1 if failed else 0
