"""Reads what Kubernetes warns of a pod whose container is not even made: a volume that cannot be mounted, a network that fails.

A pod's status says nothing of it, only that the container is being created. The Events of such a pod are read, of no other.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from workslice_operator.kube_api import EVENTS, Kube, KubeError
from workslice_operator.observed import Obstacle, PodFacts

SETTLED_SECONDS: Final = 10.0
"""A volume is attached and mounted before, and what fails at first is repeated."""
READ_AGAIN_SECONDS: Final = 20.0
_REMEMBERED: Final = 1000
_TELLING: Final = ("FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "NetworkNotReady")
_SUMMARY: Final = "Unable to attach or mount volumes"
"""The kubelet's own summary of what it has said of one volume before."""

log = logging.getLogger(__name__)


class PodWarnings:
    """The newest telling warning of each pod that is stuck before its container."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._said: dict[str, tuple[float, Obstacle | None]] = {}
        """By UID of the pod, with the time of the loop's clock."""

    async def completed(self, namespace: str, pods: Sequence[PodFacts], now: datetime) -> tuple[PodFacts, ...]:
        """The pods, with what stands in the way of those that are stuck; what cannot be read stays empty."""
        stuck = {pod.uid for pod in pods if is_stuck(pod, now)}
        await asyncio.gather(*(self._read(namespace, uid) for uid in sorted(stuck) if self._is_due(uid)))
        while len(self._said) > _REMEMBERED:
            del self._said[next(iter(self._said))]
        return tuple(replace(pod, obstacle=self._said[pod.uid][1]) if pod.uid in stuck else pod for pod in pods)

    def _is_due(self, uid: str) -> bool:
        read_at, _ = self._said.get(uid, (float("-inf"), None))
        return asyncio.get_running_loop().time() - read_at >= READ_AGAIN_SECONDS

    async def _read(self, namespace: str, uid: str) -> None:
        found: Obstacle | None = None
        try:
            found = obstacle(await self._kube.list(EVENTS, namespace, fields=f"involvedObject.uid={uid},type=Warning"))
        except KubeError as error:
            log.info("no events of a pod that is stuck", extra={"uid": uid, "error": str(error)})
        self._said.pop(uid, None)  # so that the newest stands last
        self._said[uid] = (asyncio.get_running_loop().time(), found)


def is_stuck(pod: PodFacts, now: datetime) -> bool:
    """Whether a pod that has its place should have had its volumes and its network by now."""
    if not pod.live or pod.sandboxed or pod.scheduled_at is None:
        return False
    return (now - pod.scheduled_at).total_seconds() >= SETTLED_SECONDS


def obstacle(events: Iterable[Mapping[str, Any]]) -> Obstacle | None:
    """What the newest telling event of a pod says; None when none does."""
    telling = sorted((one for one in events if one.get("reason") in _TELLING), key=_seen_at)
    named = [one for one in telling if not one.get("message", "").startswith(_SUMMARY)]
    newest = next(reversed(named or telling), None)
    return Obstacle(newest["reason"], newest.get("message", "")) if newest is not None else None


def _seen_at(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((one for one in times if one), ""))
