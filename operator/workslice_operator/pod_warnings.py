"""Reads what Kubernetes warns of a pod whose container is not even made (a volume that cannot be mounted, a network that fails), and of one
whose warm-up has failed.

A pod's status says nothing of either. The Events of such pods are read, of no others.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from workslice_operator.kube_api import EVENTS, Kube, KubeError
from workslice_operator.observed import UNHEALTHY, Obstacle, PodFacts

SETTLED_SECONDS: Final = 10.0
"""A volume is attached and mounted before, and what fails at first is repeated."""
READ_AGAIN_SECONDS: Final = 20.0
_REMEMBERED: Final = 1000
_TELLING: Final = ("FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "NetworkNotReady")
_WARM_UP: Final = "warm-up: "
"""How the probe that warms an engine up begins what it says."""
_SUMMARY: Final = "Unable to attach or mount volumes"
"""The kubelet's own summary of what it has said of one volume before."""

log = logging.getLogger(__name__)


class PodWarnings:
    """The newest telling warning of each pod that is stuck before its container."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._said: dict[str, tuple[float, Obstacle | None]] = {}
        """By UID of the pod, with the time of the loop's clock."""

    async def completed(
        self, namespace: str, pods: Sequence[PodFacts], now: datetime, warmed_up: bool = False
    ) -> tuple[PodFacts, ...]:
        """The pods, with what stands in the way of those that are stuck; what cannot be read stays empty. `warmed_up`: their engines
        have requests to answer before they are ready.
        """
        stuck = {pod.uid for pod in pods if is_stuck(pod, now) or (warmed_up and was_stopped(pod))}
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


def was_stopped(pod: PodFacts) -> bool:
    """Whether its engine was told to end and is not ready since: its startup probe may have given it up."""
    return pod.live and not pod.ready and pod.last_exit is not None and pod.last_exit.was_stopped


def obstacle(events: Iterable[Mapping[str, Any]]) -> Obstacle | None:
    """What the newest telling event of a pod says; None when none does."""
    telling = sorted(filter(_is_telling, events), key=_seen_at)
    named = [one for one in telling if not one.get("message", "").startswith(_SUMMARY)]
    newest = next(reversed(named or telling), None)
    if newest is None:
        return None
    message = newest.get("message", "")
    return Obstacle(newest["reason"], message.partition(_WARM_UP)[2] if newest["reason"] == UNHEALTHY else message)


def _is_telling(event: Mapping[str, Any]) -> bool:
    if event.get("reason") == UNHEALTHY:
        return _WARM_UP in event.get("message", "")
    return event.get("reason") in _TELLING


def _seen_at(event: Mapping[str, Any]) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((one for one in times if one), ""))
