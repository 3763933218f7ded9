"""The shell around `plan` for one pool: load → plan → apply → events → one status write → when to look again.

Looks cost nothing, since they read what watches have told; but that may be a moment old. A plan that does more than write status is
therefore made again from what the API says now, before anything is done.
"""

import asyncio
import logging
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from workslice_api.names import DELETION_COST_ANNOTATION, POOL_KIND
from workslice_api.pool import WorkspacePool, WorkspacePoolStatus
from workslice_operator.applied_children import content, digest, is_applied
from workslice_operator.cache_measurement import engine_to_measure
from workslice_operator.demand import NUMBERS_SECONDS, could_change, follows_the_clock
from workslice_operator.drain import DeletionCost, engines_to_ask
from workslice_operator.engine_logs import EngineLogs
from workslice_operator.engine_measurer import EngineMeasurer
from workslice_operator.event_writer import EventWriter
from workslice_operator.faults import faults
from workslice_operator.found_models import FoundModels
from workslice_operator.idle import remember_idle
from workslice_operator.installation import Installation
from workslice_operator.keys import Key, profile_key
from workslice_operator.kube_api import (
    CHILD_RESOURCES,
    PODS,
    POOLS,
    Conflict,
    Kube,
    NamespaceGoing,
    NotFound,
    Object,
    Reads,
    Refused,
)
from workslice_operator.load_observed import PredecessorRemains, load_children, load_observed
from workslice_operator.metrics import Metrics
from workslice_operator.model_claims import ModelClaims
from workslice_operator.observed import EngineLoad, Observed, QueueSignal, RouterReport
from workslice_operator.pause import says_paused
from workslice_operator.plan import RESYNC_SECONDS, Plan, plan, plan_after_failed_apply
from workslice_operator.pod_warnings import PodWarnings
from workslice_operator.profile_fit import stated_fit
from workslice_operator.readable import validation_sentence
from workslice_operator.replica_start import tells_more
from workslice_operator.rolling_pools import RollingPools
from workslice_operator.shared_read import SharedRead
from workslice_operator.slice_choice import with_chosen_slice
from workslice_operator.slice_conditions import free_although_refused
from workslice_operator.slice_inventory import SliceInventory
from workslice_operator.status_urgency import Urgency, urgency
from workslice_operator.surge import wanted_slice
from workslice_operator.unreadable import say_unreadable
from workslice_operator.weighed_depth import remember

PREDECESSOR_SECONDS = 1.0
UNWATCHED_SECONDS = 15.0

log = logging.getLogger(__name__)


@dataclass
class _Remembered:
    """What one process remembers of a pool; all of it can be lost."""

    pool: WorkspacePool
    """As read last."""
    status: WorkspacePoolStatus
    """As planned last: the API may hold older numbers."""
    written_at: float
    applied: dict[str, tuple[str, str]]
    """Kind → digests of the manifest applied last and of what was in its child after it."""
    disagrees_since: float | None
    """Since when the scheduler refuses pods for slices that the inventory calls free; None: it does not."""
    settled_at: QueueSignal | None = None
    """Demand at which there was nothing to remember or decide: while it is the same, there still is not."""


class PoolReconciler:
    """Reconciles one pool at a time per key; the work queue sees to that."""

    def __init__(
        self,
        kube: Kube,
        live: Reads,
        parse: Callable[[Object], WorkspacePool],
        installation: Installation,
        rolling: RollingPools,
        claims: ModelClaims,
        inventory: SharedRead[SliceInventory | None],
        signal: Callable[[str], QueueSignal | None],
        routers: Callable[[str], RouterReport | None],
        engine: Callable[[str], Awaitable[EngineLoad | None]],
        events: EventWriter,
        metrics: Metrics,
        wake: Callable[[Key], None],
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
        found: FoundModels,
    ) -> None:
        """`kube` may tell what was so a moment ago, `live` tells what is; `parse` reads a raw pool; `rolling` gives turns to replace
        replicas; `signal` gives the demand of a pool (namespace/name), `routers` their report on its replicas, `engine` the load of the
        engine at an IP address; `found` hears what pods find out of models; `wake` queues a key; `clock` tells UTC time with its zone.
        """
        self._kube = kube
        self._live = live
        self._parse = parse
        self._installation = installation
        self._claims = claims
        self._inventory = inventory
        self._signal = signal
        self._routers = routers
        self._engine = engine
        self._engine_logs = EngineLogs(kube)
        self._pod_warnings = PodWarnings(kube)
        self._events = events
        self._metrics = metrics
        self._wake = wake
        self._clock = clock
        self._monotonic = monotonic
        self._found = found
        self._remembered: dict[Key, _Remembered] = {}
        self._unreadable: set[Key] = set()
        self._rolling = rolling
        self._measurer = EngineMeasurer(engine, wake, monotonic)

    async def reconcile(self, key: Key) -> float | None:
        """Bring one pool nearer to its spec; returns the seconds after which to look again.

        Raises:
            KubeError: the API is away or refuses what a retry may heal.
        """
        return await self._reconcile_from(self._kube, key)

    async def _reconcile_from(self, reads: Reads, key: Key) -> float | None:
        raw = await reads.get(POOLS, key.namespace, key.name)
        if raw is None:
            await self._forget(key)
            return None
        try:
            pool = self._parse(raw)
        except ValidationError as error:
            log.error("pool cannot be read: %s", validation_sentence(error), extra={"key": str(key)})
            self._unreadable.add(key)
            self._rolling.forget(key)
            conditions = await say_unreadable(self._kube, self._events, POOLS, raw, error, self._clock())
            self._metrics.show_faults("pool_fault", faults(conditions), key.namespace, key.name)
            return None
        self._unreadable.discard(key)
        if pool.metadata.deletion_timestamp is not None:
            return None  # its children go by their ownerReferences
        try:
            return await self._reconcile_pool(reads, key, pool)
        except PredecessorRemains as remains:
            log.info("waiting: %s", remains, extra={"key": str(key)})
            return PREDECESSOR_SECONDS
        except NamespaceGoing:
            return None  # the pool goes too, and its own event tells when

    def demand_changed(self) -> None:
        """Another look at what routers say, every two seconds: remember it, show it, and queue the pools for which it may change a
        decision or whose status has old numbers.
        """
        now = self._monotonic()
        for key, known in self._remembered.items():
            signal = self._signal(known.pool.key)
            if signal is not None and signal == known.settled_at:
                continue
            before = known.status
            if signal is not None and known.pool.spec.scaling.mode == "QueueDepth":
                memory = remember(known.status.scaling, signal)
                memory = remember_idle(known.pool.spec.scaling, memory, signal, self._clock())
                if memory is not known.status.scaling:
                    known.status = known.status.model_copy(update={"scaling": memory})
            depth = signal.depth if signal else None
            self._metrics.set("pool_queue_depth", depth, key.namespace, key.name)
            if says_paused(known.status.conditions):
                continue
            numbers_due = depth != known.status.queue_depth and now - known.written_at >= NUMBERS_SECONDS
            if (
                numbers_due
                or known.status.drain_marks
                or could_change(known.pool.spec.scaling, known.status, signal, self._clock())
            ):
                self._wake(key)
            elif (
                known.status is before
                and depth == before.queue_depth
                and not follows_the_clock(known.pool.spec.scaling)
            ):
                known.settled_at = signal

    def any_asleep(self) -> bool:
        """Whether a request may have to wake a pool."""
        return any(_sleeps(known) for known in self._remembered.values())

    def wake_asleep(self) -> frozenset[Key]:
        """Queue the pools that sleep and were asked for; returns them."""
        asked = frozenset(
            key
            for key, known in self._remembered.items()
            if _sleeps(known)
            and could_change(known.pool.spec.scaling, known.status, self._signal(known.pool.key), self._clock())
        )
        for key in asked:
            self._wake(key)
        return asked

    def known_keys(self) -> tuple[Key, ...]:
        """Pools that were there when last looked at."""
        return (*self._remembered, *self._unreadable)

    async def _reconcile_pool(self, reads: Reads, key: Key, pool: WorkspacePool) -> float | None:
        read, stored = pool, pool.status
        known = self._remembered.get(key)
        if known is not None and known.pool.metadata.uid == pool.metadata.uid:
            pool = pool.model_copy(update={"status": known.status})
        else:
            known = None
        self._wake_profiles(known.pool if known else None, pool)
        conflict = await self._claims.conflict(pool)
        children = await load_children(reads, pool)
        observed = await load_observed(
            reads, pool, children, conflict, self._signal(pool.key), await self._inventory.get()
        )
        if observed.profile is not None and observed.profile.spec.allows(pool.metadata.namespace):
            self._found.tell(observed.profile, observed.pods)
        now = self._clock()
        pods = await self._engine_logs.completed(pool.metadata.namespace, observed.pods)
        warmed_up = observed.profile is not None and observed.profile.spec.engine.warmup is not None
        pods = await self._pod_warnings.completed(pool.metadata.namespace, pods, now, warmed_up)
        fallback = self._claims.unserved_fallback(pool)
        observed = replace(observed, pods=pods, routers=self._routers(pool.key), unserved_fallback=fallback)
        observed = replace(observed, engines=await self._ask_engines(observed, now))
        fit = stated_fit(observed.profile, observed.inventory) if observed.profile else None
        with_slice, _ = with_chosen_slice(observed, observed.pool.status.desired_replicas, fit)
        if pod := engine_to_measure(with_slice):
            observed = replace(observed, kv_tokens=self._measurer.kv_tokens(key, pod))
        disagrees_since = self._disagrees_since(with_slice, known)
        if disagrees_since is not None:
            observed = replace(observed, disagreement=self._monotonic() - disagrees_since)
        observed = replace(observed, spoken_for=self._rolling.spoken_for(key, wanted_slice(with_slice)))
        observed = replace(observed, may_roll=self._rolling.may_roll(key, observed, self._monotonic()))
        planned = plan(observed, self._installation, now, fit)
        applied = known.applied if known else {}
        if reads is not self._live and self._does_more_than_tell(planned, observed, children, applied):
            return await self._reconcile_from(self._live, key)
        self._rolling.follow(key, planned, observed)
        refusals = await self._mark_pods(key, planned.mark)
        refusals += await self._apply_all(key, planned.apply, children, applied)
        if refusals:
            planned = plan_after_failed_apply(planned, observed, "; ".join(refusals), now)
        for note in planned.events:
            log.info("%s: %s", note.reason, note.message, extra={"key": str(key)})
            self._metrics.count("decisions_total", key.namespace, key.name, str(note.reason))
            await self._events.write(POOL_KIND, pool.metadata, note)
        written_at = known.written_at if known else float("-inf")
        how = urgency(stored, planned.status)
        held_back = max(0.0, written_at + NUMBERS_SECONDS - self._monotonic()) if how is Urgency.NUMBERS else 0.0
        if how is not Urgency.NOTHING and not held_back:
            written = await self._write_status(pool, planned.status) or read
            self._wake_profiles(read, written)  # a new spec may have come meanwhile
            read = written
            written_at = self._monotonic()
        measured, before = planned.status.slices, stored.slices
        is_measured = measured.kv_tokens and (measured.kv_tokens, measured.measured_for) != (
            before.kv_tokens,
            before.measured_for,
        )
        usual = observed.profile.status.start_seconds if observed.profile else None
        if is_measured or tells_more(usual, stored.last_start, planned.status.last_start):
            self._wake(profile_key(pool.spec.profile_ref.name))  # its status shows both
        # What is the same is kept once: thousands of pools have thousands of conditions.
        status = read.status if planned.status == read.status else planned.status
        self._remembered[key] = _Remembered(read, status, written_at, applied, disagrees_since)
        self._show(key, planned.status, sum(pod.ready for pod in observed.pods if pod.live))
        # No event tells when a quota grows or somebody else's object goes away.
        waits = (planned.requeue_after, held_back, UNWATCHED_SECONDS if refusals or observed.taken_names else 0.0)
        again = min(wait for wait in waits if wait > 0)
        # Pools that were made at the same time need not all be looked at again at the same time.
        return again * (1 - zlib.crc32(str(key).encode()) % 100 / 400) if again == RESYNC_SECONDS else again

    @staticmethod
    def _does_more_than_tell(
        planned: Plan, observed: Observed, children: Mapping[str, Object], applied: dict[str, tuple[str, str]]
    ) -> bool:
        """Whether a plan changes anything but status, or names in it a replica that must go."""
        drains = planned.status.drain_marks != observed.pool.status.drain_marks
        return drains or bool(planned.mark) or any(not is_applied(one, children, applied) for one in planned.apply)

    def _disagrees_since(self, observed: Observed, known: _Remembered | None) -> float | None:
        if not free_although_refused(observed):
            return None
        before = known.disagrees_since if known else None
        return self._monotonic() if before is None else before

    async def _ask_engines(self, observed: Observed, now: datetime) -> dict[str, EngineLoad]:
        pods = engines_to_ask(observed, now)
        loads = await asyncio.gather(*(self._engine(pod.address) for pod in pods))
        return {pod.uid: load for pod, load in zip(pods, loads, strict=True) if load is not None}

    async def _mark_pods(self, key: Key, costs: Iterable[DeletionCost]) -> list[str]:
        """Set deletion costs; returns what the API refused and why. A pod that is gone meanwhile needs none."""
        refusals: list[str] = []
        for one in costs:
            value = None if one.cost is None else str(one.cost)
            patch = {"metadata": {"uid": one.uid, "annotations": {DELETION_COST_ANNOTATION: value}}}
            try:
                await self._kube.merge_patch(PODS, key.namespace, one.pod, patch)
            except (NotFound, Conflict):
                continue
            except NamespaceGoing:
                raise
            except Refused as error:
                log.warning("the API refused to mark %s: %s", one.pod, error, extra={"key": str(key)})
                refusals.append(f"the API refused the annotation {DELETION_COST_ANNOTATION} on pods: {error.message}")
        return refusals[:1]

    async def _apply_all(
        self,
        key: Key,
        manifests: Iterable[Mapping[str, Any]],
        children: Mapping[str, Object],
        applied: dict[str, tuple[str, str]],
    ) -> list[str]:
        """Apply what can be applied; returns what the API refused and why."""
        refusals = []
        for manifest in manifests:
            try:
                await self._apply(manifest, children, applied)
            except NamespaceGoing:
                raise
            except Refused as error:
                log.warning("the API refused the %s: %s", manifest["kind"], error, extra={"key": str(key)})
                self._metrics.count("reconcile_errors_total", POOL_KIND, "apply-refused")
                refusals.append(f"the API refused the {manifest['kind']}: {error.message}")
        return refusals

    async def _apply(
        self, manifest: Mapping[str, Any], children: Mapping[str, Object], applied: dict[str, tuple[str, str]]
    ) -> None:
        """Apply one child, unless exactly this was applied before and nobody touched the child since."""
        kind = manifest["kind"]
        if is_applied(manifest, children, applied):
            return
        self._metrics.count("applies_total", kind)
        applied[kind] = (digest(manifest), content(await self._kube.apply(CHILD_RESOURCES[kind], manifest)))

    async def _write_status(self, pool: WorkspacePool, status: WorkspacePoolStatus) -> WorkspacePool | None:
        """The pool as it is now; None when it is gone."""
        manifest = {
            "apiVersion": pool.api_version,
            "kind": pool.kind,
            # The UID refuses the write when another pool of this name has taken its place.
            "metadata": {"name": pool.metadata.name, "namespace": pool.metadata.namespace, "uid": pool.metadata.uid},
            "status": status.to_wire(),
        }
        try:
            raw = await self._kube.apply_status(POOLS, manifest)
        except NotFound:
            return None  # deleted meanwhile; its own event brings the key back
        self._metrics.count("status_writes_total", POOL_KIND)
        return self._parse(raw)

    def _wake_profiles(self, before: WorkspacePool | None, now: WorkspacePool) -> None:
        """A profile's status lists its pools: it must hear of a pool that comes or changes its profile."""
        old = before.spec.profile_ref.name if before else None
        new = now.spec.profile_ref.name
        if old != new:
            for name in filter(None, (old, new)):
                self._wake(profile_key(name))

    async def _forget(self, key: Key) -> None:
        known = self._remembered.pop(key, None)
        self._unreadable.discard(key)
        self._measurer.forget(key)
        self._rolling.forget(key)
        self._metrics.forget_pool(key.namespace, key.name)
        if known is not None:
            self._wake(profile_key(known.pool.spec.profile_ref.name))
            await self._claims.pool_gone()

    def _show(self, key: Key, status: WorkspacePoolStatus, ready: int) -> None:
        labels = (key.namespace, key.name)
        self._metrics.set("pool_queue_depth", status.queue_depth, *labels)
        self._metrics.show_faults("pool_fault", faults(status.conditions), *labels)
        self._metrics.set("pool_desired_replicas", status.desired_replicas, *labels)
        self._metrics.set("pool_ready_replicas", ready, *labels)  # the status of a paused pool is old


def _sleeps(known: _Remembered) -> bool:
    """Whether a request wakes it; nothing does while it is paused."""
    return known.status.scaling.asleep and not says_paused(known.status.conditions)
