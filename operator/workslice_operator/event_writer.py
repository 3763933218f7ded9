"""Writes Kubernetes Events about pools and profiles; the same Event again only counts up."""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime

from workslice_api.base import ObjectMeta
from workslice_api.names import API_VERSION, FIELD_MANAGER
from workslice_operator.kube_api import EVENTS, Conflict, Kube, KubeError, NamespaceGoing
from workslice_operator.pool_events import EventNote
from workslice_operator.write_fence import NotLeading

REMEMBERED = 1000
_LONGEST_MESSAGE = 1024
"""The API refuses longer ones."""

log = logging.getLogger(__name__)


class EventWriter:
    """An Event's name follows from what it says, so that a repetition finds it, over restarts too."""

    def __init__(self, kube: Kube, instance: str, clock: Callable[[], datetime]) -> None:
        """`clock` gives the current time with its zone."""
        self._kube = kube
        self._instance = instance
        self._clock = clock
        self._counts: OrderedDict[str, int] = OrderedDict()

    async def write(self, kind: str, about: ObjectMeta, note: EventNote) -> None:
        """Write or count up. An Event that the API does not take is logged and given up: Events are never worth a retry.

        Raises:
            NotLeading, TimeoutError: see FencedKube; the next writing of the same Event begins anew.
        """
        namespace = about.namespace or "default"  # where Events of cluster-scoped objects go
        message = note.message[:_LONGEST_MESSAGE]
        digest = hashlib.sha256(f"{about.uid} {note.reason} {message}".encode()).hexdigest()[:16]
        name = f"{about.name}.{digest}"
        now = self._clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        count = self._counts[name] = self._counts.pop(name, 0) + 1
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)
        try:
            if count == 1:
                try:
                    await self._kube.create(EVENTS, self._event(kind, about, note, namespace, name, message, now))
                    return
                except Conflict:
                    pass  # written before a restart
            patch = {"lastTimestamp": now} | ({"count": count} if count > 1 else {})
            await self._kube.merge_patch(EVENTS, namespace, name, patch)
        except NamespaceGoing:
            pass
        except (NotLeading, TimeoutError):
            self._counts.pop(name, None)  # a retry must not take it for written
            raise
        except KubeError as error:
            self._counts.pop(name, None)
            log.warning("event not written: %s", error, extra={"key": f"{kind} {about.namespace}/{about.name}"})

    def _event(
        self, kind: str, about: ObjectMeta, note: EventNote, namespace: str, name: str, message: str, now: str
    ) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": kind,
                "name": about.name,
                "namespace": about.namespace,
                "uid": about.uid,
                "resourceVersion": about.resource_version,
            },
            "type": note.type,
            "reason": str(note.reason),
            "message": message,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": FIELD_MANAGER,
            "reportingInstance": self._instance,
        }
