"""The shell around `profile_status` for one profile: its status, and the pools that must hear of a change."""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from workslice_api.conditions import find_condition
from workslice_api.names import PAUSED_ANNOTATION, PROFILE_KIND, ConditionType, Reason
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.cache_measurement import deviations
from workslice_operator.event_writer import EventWriter
from workslice_operator.faults import faults
from workslice_operator.finding import Finding
from workslice_operator.found_models import FoundModels
from workslice_operator.keys import Key, pool_key
from workslice_operator.kube_api import PROFILES, Kube, NotFound, Object
from workslice_operator.metrics import Metrics
from workslice_operator.pause import pause_of_profile, says_paused, with_pause
from workslice_operator.pool_events import EventNote
from workslice_operator.profile_status import profile_status
from workslice_operator.readable import validation_sentence
from workslice_operator.shared_read import SharedRead
from workslice_operator.slice_inventory import SliceInventory
from workslice_operator.unreadable import say_unreadable

LOOK_AGAIN_SECONDS = 30.0

log = logging.getLogger(__name__)


class ProfileReconciler:
    """Reconciles one profile at a time per key; the work queue sees to that."""

    def __init__(
        self,
        kube: Kube,
        pools: Callable[[], Awaitable[list[WorkspacePool]]],
        inventory: SharedRead[SliceInventory | None],
        events: EventWriter,
        metrics: Metrics,
        wake: Callable[[Key], None],
        clock: Callable[[], datetime],
        found: FoundModels,
    ) -> None:
        """`pools` reads all pools of the cluster that can be read; `wake` queues a key; `clock` tells UTC time with its zone; pools tell
        `found` of models.
        """
        self._kube = kube
        self._inventory = inventory
        self._events = events
        self._metrics = metrics
        self._wake = wake
        self._clock = clock
        self._found = found
        # At a resync many profiles are reconciled at once: those that ask at the same time share one list of the pools.
        self._pools = SharedRead(pools, 0.0)
        self._seen: dict[Key, tuple[Any, ...]] = {}

    def known_keys(self) -> tuple[Key, ...]:
        """Profiles that were there when last looked at."""
        return tuple(self._seen)

    async def reconcile(self, key: Key) -> float | None:
        """Bring the profile's status up to date and queue its pools when the profile changed; raises KubeError."""
        raw = await self._kube.get(PROFILES, "", key.name)
        pools = [one for one in await self._pools.get(fresh=True) if one.spec.profile_ref.name == key.name]
        if raw is None:
            if self._seen.pop(key, None) is not None:
                self._wake_pools(pools)
            self._metrics.show_faults("profile_fault", (), key.name)
            self._found.forget(key.name)
            return None
        version = _version(raw)
        try:
            profile = WorkspaceProfile.model_validate(raw)
        except ValidationError as error:
            log.error("profile cannot be read: %s", validation_sentence(error), extra={"key": str(key)})
            self._see(key, version, pools)
            conditions = await say_unreadable(self._kube, self._events, PROFILES, raw, error, self._clock())
            self._metrics.show_faults("profile_fault", faults(conditions), key.name)
            return None
        pause = pause_of_profile(profile)
        if pause is not None:
            self._see(key, version, pools)
            await self._hold(profile, pause)
            return None
        if says_paused(profile.status.conditions):
            note = EventNote("Normal", Reason.RESUMED, "no longer paused: the operator goes on with the profile")
            await self._events.write(PROFILE_KIND, profile.metadata, note)
        before = profile.status
        found = before.model_copy(update={"model": self._found.of(profile)})
        profile = profile.model_copy(update={"status": found})
        status = profile_status(profile, pools, await self._inventory.get(), self._clock())
        self._metrics.show_faults("profile_fault", faults(status.conditions), key.name)
        verdicts = [find_condition(status.conditions, one) for one in (ConditionType.ACCEPTED, ConditionType.FITS)]
        accepted, fits = (one.status if one else "Unknown" for one in verdicts)
        self._see(key, (*version, fits), pools)
        for sentence in deviations(profile.status.slices, status.slices):
            note = EventNote("Warning", Reason.ESTIMATE_OFF, sentence)
            await self._events.write(PROFILE_KIND, profile.metadata, note)
        if status != before:
            await self._write(profile, status.to_wire())
        # No event tells of nodes, so a profile that lacks its slices, or whose model needs larger ones, looks for them again.
        return None if accepted == "True" and fits != "False" else LOOK_AGAIN_SECONDS

    def _see(self, key: Key, version: tuple[Any, ...], pools: list[WorkspacePool]) -> None:
        """Remember what was seen, and queue the pools if it is new to them."""
        if version != self._seen.get(key):
            self._wake_pools(pools)
        self._seen[key] = version

    def _wake_pools(self, pools: list[WorkspacePool]) -> None:
        for pool in pools:
            self._wake(pool_key(pool.metadata.namespace, pool.metadata.name))

    async def _hold(self, profile: WorkspaceProfile, pause: Finding) -> None:
        """Say once that nothing is written any more."""
        before = profile.status
        conditions = with_pause(before.conditions, pause, profile.metadata.generation, self._clock())
        if says_paused(before.conditions) is None:
            note = EventNote("Normal", pause.reason, pause.message)
            await self._events.write(PROFILE_KIND, profile.metadata, note)
        self._metrics.show_faults("profile_fault", faults(conditions), profile.metadata.name)
        if conditions != before.conditions:
            await self._write(profile, before.model_copy(update={"conditions": conditions}).to_wire())

    async def _write(self, profile: WorkspaceProfile, status: Object) -> None:
        manifest = {
            "apiVersion": profile.api_version,
            "kind": profile.kind,
            "metadata": {"name": profile.metadata.name, "uid": profile.metadata.uid},
            "status": status,
        }
        try:
            await self._kube.apply_status(PROFILES, manifest)
        except NotFound:
            return
        self._metrics.count("status_writes_total", PROFILE_KIND)


def _version(raw: Object) -> tuple[Any, ...]:
    """What pools of the profile must hear of when it changes."""
    metadata = raw["metadata"]
    return metadata["uid"], metadata.get("generation"), (metadata.get("annotations") or {}).get(PAUSED_ANNOTATION)
