from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from fake_kube import FakeKube
from pool_objects import raw_pool

from workslice_api.names import Reason
from workslice_api.pool import WorkspacePool
from workslice_operator.event_writer import EventWriter
from workslice_operator.kube_api import Object, Refused, Resource
from workslice_operator.pool_events import EventNote
from workslice_operator.write_fence import NotLeading

POOL = WorkspacePool.model_validate(raw_pool()).metadata
NOTE = EventNote("Normal", Reason.SCALED_UP, "2 replicas")


def writer(kube: FakeKube) -> EventWriter:
    return EventWriter(kube, "operator-0", lambda: datetime(2026, 1, 1, tzinfo=UTC))


def events(kube: FakeKube) -> list[dict[str, object]]:
    return [one for (kind, _, _), one in kube.objects.items() if kind == "Event"]


async def test_an_event_names_the_pool_it_speaks_of() -> None:
    kube = FakeKube()
    await writer(kube).write("WorkspacePool", POOL, NOTE)
    (event,) = events(kube)
    assert event["involvedObject"]["uid"] == "pool-uid"  # type: ignore[index]
    assert (event["reason"], event["message"], event["type"], event["count"]) == ("ScaledUp", "2 replicas", "Normal", 1)


async def test_the_same_event_again_counts_up() -> None:
    kube = FakeKube()
    once = writer(kube)
    for _ in range(3):
        await once.write("WorkspacePool", POOL, NOTE)
    (event,) = events(kube)
    assert event["count"] == 3


async def test_a_restarted_operator_repeats_no_event() -> None:
    kube = FakeKube()
    await writer(kube).write("WorkspacePool", POOL, NOTE)
    await writer(kube).write("WorkspacePool", POOL, NOTE)
    assert len(events(kube)) == 1


async def test_another_message_is_another_event() -> None:
    kube = FakeKube()
    once = writer(kube)
    await once.write("WorkspacePool", POOL, NOTE)
    await once.write("WorkspacePool", POOL, EventNote("Normal", Reason.SCALED_UP, "3 replicas"))
    assert len(events(kube)) == 2


async def test_an_event_that_cannot_be_written_stops_nothing() -> None:
    kube = FakeKube()
    kube.failures["create", "Event"] = Refused(403, "namespace is terminating")
    await writer(kube).write("WorkspacePool", POOL, NOTE)
    assert events(kube) == []


@pytest.mark.parametrize("fault", [NotLeading("the lease is not held at the moment"), TimeoutError()])
async def test_an_event_that_the_fence_held_back_is_written_by_the_retry(fault: Exception) -> None:
    class Fenced(FakeKube):
        async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
            if faults:
                raise faults.pop()
            return await super().create(resource, manifest)

    faults = [fault]
    kube = Fenced()
    once = writer(kube)
    with pytest.raises(type(fault)):
        await once.write("WorkspacePool", POOL, NOTE)
    await once.write("WorkspacePool", POOL, NOTE)
    assert kube.written("Event") == ["create"]
