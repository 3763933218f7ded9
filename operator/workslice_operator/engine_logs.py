"""Reads an engine's log where only that tells why it ended: once for every end, since a log may be long."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from workslice_api.names import ENGINE_CONTAINER
from workslice_operator.engine_death import telling_lines, wants_log
from workslice_operator.kube_api import Kube, KubeError
from workslice_operator.observed import ContainerExit, PodFacts

LINES = 10_000
READ_SECONDS = 5.0
"""A kubelet that does not answer holds nothing up for longer."""
READS_AT_ONCE = 4
"""Of one pool; the others follow when it is looked at again."""
_REMEMBERED = 1000

log = logging.getLogger(__name__)


class EngineLogs:
    """The telling lines of the engines that ended lately."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._read: dict[tuple[str, object], str] = {}

    async def completed(self, namespace: str, pods: Sequence[PodFacts]) -> tuple[PodFacts, ...]:
        """The pods, with those last words that Kubernetes did not keep; what cannot be read stays empty."""
        silent = {
            pod.uid: pod.last_exit
            for pod in pods
            if pod.live and not pod.ready and pod.last_exit is not None and wants_log(pod.last_exit)
        }
        unread = [pod for pod in pods if pod.uid in silent and _end(pod) not in self._read][:READS_AT_ONCE]
        for pod, lines in zip(
            unread, await asyncio.gather(*(self._lines(namespace, one) for one in unread)), strict=True
        ):
            self._read[_end(pod)] = lines
        while len(self._read) > _REMEMBERED:
            del self._read[next(iter(self._read))]
        return tuple(self._with_words(pod, silent[pod.uid]) if pod.uid in silent else pod for pod in pods)

    def _with_words(self, pod: PodFacts, ended: ContainerExit) -> PodFacts:
        lines = self._read.get(_end(pod))
        return replace(pod, last_exit=replace(ended, message=lines)) if lines else pod

    async def _lines(self, namespace: str, pod: PodFacts) -> str:
        assert pod.last_exit is not None
        try:
            async with asyncio.timeout(READ_SECONDS):
                text = await self._kube.pod_log(
                    namespace, pod.name, ENGINE_CONTAINER, previous=pod.last_exit.replaced, lines=LINES
                )
        except (KubeError, TimeoutError) as error:
            log.info("no log of an engine that ended", extra={"pod": f"{namespace}/{pod.name}", "error": str(error)})
            return ""
        return telling_lines(text)


def _end(pod: PodFacts) -> tuple[str, object]:
    assert pod.last_exit is not None
    return pod.uid, pod.last_exit.finished_at
