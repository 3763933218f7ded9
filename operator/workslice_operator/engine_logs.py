"""Reads an engine's log where only that tells why it ended: at most twice for every end, since a log may be long.

Twice, since the kubelet may put the next container in the place of one that was just seen to have ended: what is read then without
`previous` is the log of the new one. Once the status tells of the replacement there is no doubt whose log `previous` is.
"""

import asyncio
import logging
import math
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
RETRY_SECONDS = 30.0
"""After a read that failed."""
_REMEMBERED = 1000

_Ending = tuple[str, object, bool]
"""A pod's UID, when its engine ended, and whether the container was replaced already."""

log = logging.getLogger(__name__)


class EngineLogs:
    """The telling lines of the engines that ended lately."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._read: dict[_Ending, str] = {}
        self._failed_at: dict[_Ending, float] = {}

    async def completed(self, namespace: str, pods: Sequence[PodFacts]) -> tuple[PodFacts, ...]:
        """The pods, with those last words that Kubernetes did not keep; what cannot be read stays empty."""
        silent = {
            pod.uid: pod.last_exit
            for pod in pods
            if pod.live and not pod.ready and pod.last_exit is not None and wants_log(pod.last_exit)
        }
        unread = [pod for pod in pods if pod.uid in silent and self._is_due(_ending(pod))][:READS_AT_ONCE]
        await asyncio.gather(*(self._complete(namespace, pod) for pod in unread))
        for remembered in (self._read, self._failed_at):
            while len(remembered) > _REMEMBERED:
                del remembered[next(iter(remembered))]
        return tuple(self._with_words(pod, silent[pod.uid]) if pod.uid in silent else pod for pod in pods)

    def _is_due(self, ending: _Ending) -> bool:
        failed_at = self._failed_at.get(ending, -math.inf)
        return ending not in self._read and asyncio.get_running_loop().time() - failed_at >= RETRY_SECONDS

    def _with_words(self, pod: PodFacts, ended: ContainerExit) -> PodFacts:
        uid, finished_at, replaced = _ending(pod)
        lines = self._read.get((uid, finished_at, replaced), self._read.get((uid, finished_at, False)))
        return replace(pod, last_exit=replace(ended, message=lines)) if lines else pod

    async def _complete(self, namespace: str, pod: PodFacts) -> None:
        lines, ending = await self._lines(namespace, pod), _ending(pod)
        if lines is None:
            self._failed_at.pop(ending, None)  # so that the newest stands last
            self._failed_at[ending] = asyncio.get_running_loop().time()
        else:
            self._failed_at.pop(ending, None)
            self._read[ending] = lines

    async def _lines(self, namespace: str, pod: PodFacts) -> str | None:
        assert pod.last_exit is not None
        try:
            async with asyncio.timeout(READ_SECONDS):
                text = await self._kube.pod_log(
                    namespace, pod.name, ENGINE_CONTAINER, previous=pod.last_exit.replaced, lines=LINES
                )
        except (KubeError, TimeoutError) as error:
            log.info("no log of an engine that ended", extra={"pod": f"{namespace}/{pod.name}", "error": str(error)})
            return None
        return await asyncio.to_thread(
            telling_lines, text
        )  # some tenths of a second for the longest: leases are renewed meanwhile


def _ending(pod: PodFacts) -> _Ending:
    assert pod.last_exit is not None
    return pod.uid, pod.last_exit.finished_at, pod.last_exit.replaced
