from typing import Any

import pytest
from pool_facts import INSTALLATION, NOW, make_deployment, make_observed, make_pool, make_profile, ready_pod
from pool_objects import raw_pool, raw_profile
from pool_world import World

from workslice_api.conditions import find_condition
from workslice_api.names import PAUSED_ANNOTATION
from workslice_api.profile import WorkspaceProfile
from workslice_operator.kube_api import POOLS
from workslice_operator.observed import QueueSignal
from workslice_operator.pause import is_paused
from workslice_operator.plan import plan
from workslice_operator.status_urgency import Urgency, urgency


def paused_profile() -> WorkspaceProfile:
    profile = make_profile()
    metadata = profile.metadata.model_copy(update={"annotations": {PAUSED_ANNOTATION: "true"}})
    return profile.model_copy(update={"metadata": metadata})


async def annotate(world: World, value: str | None) -> None:
    await world.kube.merge_patch(POOLS, "shop", "chat", {"metadata": {"annotations": {PAUSED_ANNOTATION: value}}})


@pytest.mark.parametrize(("value", "paused"), [("true", True), ("", True), ("until friday", True), ("false", False)])
def test_any_value_but_false_pauses(value: str, paused: bool) -> None:
    pool = make_pool()
    metadata = pool.metadata.model_copy(update={"annotations": {PAUSED_ANNOTATION: value}})
    assert is_paused(metadata) == paused


async def test_a_paused_pool_gets_one_event_and_one_status_and_then_no_write_at_all() -> None:
    world = World(raw_pool(), raw_profile())
    await world.reconcile()
    await annotate(world, "true")
    await world.reconcile()
    assert world.kube.written("Event") == ["create"]
    assert world.kube.written("WorkspacePool") == ["status"]
    assert len(world.kube.writes) == 2
    assert world.reason("Paused") == "Paused"
    pool = world.kube.objects["WorkspacePool", "shop", "chat"]
    pool["spec"]["replicas"] = 5
    pool["metadata"]["generation"] = 7
    world.kube.remove("Service", "shop", "chat-engine")
    world.demand = QueueSignal(3, 4)
    for _ in range(3):
        await world.reconcile(after=400)
        assert world.kube.writes == []
    world.reconciler.demand_changed()
    assert world.woken == []


async def test_what_was_held_back_is_done_when_the_annotation_goes() -> None:
    world = World(raw_pool(), raw_profile())
    await world.reconcile()
    await annotate(world, "true")
    await world.reconcile()
    world.kube.remove("Service", "shop", "chat-engine")
    world.kube.objects["WorkspacePool", "shop", "chat"]["spec"]["replicas"] = 5
    world.start()
    await annotate(world, None)
    await world.reconcile()
    assert world.kube.objects["Deployment", "shop", "chat-engine"]["spec"]["replicas"] == 5
    assert ("Service", "shop", "chat-engine") in world.kube.objects
    assert find_condition(world.pool.status.conditions, "Paused") is None
    events = [one["reason"] for (kind, *_), one in world.kube.objects.items() if kind == "Event"]
    assert {"Paused", "Resumed"} <= set(events)


def test_a_paused_profile_holds_its_pools_and_they_say_how_to_go_on() -> None:
    facts: dict[str, Any] = {"deployment": make_deployment(), "pods": (ready_pod(),)}
    planned = plan(make_observed(make_pool(replicas=4), paused_profile(), **facts), INSTALLATION, NOW)
    assert (planned.apply, planned.mark) == ((), ())
    found = find_condition(planned.status.conditions, "Paused")
    assert found is not None
    assert "kubectl annotate wsprof/small workslice.dev/paused-" in found.message


def test_a_pause_keeps_the_memory_of_drains_and_scaling() -> None:
    mark = {"name": "short-engine-a", "uid": "u", "since": "2026-03-01T11:59:00Z"}
    status = {"drainMarks": [mark], "scaling": {"desired": 3}, "readyReplicas": 2, "observedGeneration": 2}
    planned = plan(make_observed(make_pool(status=status), paused_profile()), INSTALLATION, NOW)
    assert planned.status.model_copy(update={"conditions": []}) == make_pool(status=status).status


def test_numbers_that_move_in_memory_are_not_written_while_paused() -> None:
    status = plan(make_observed(make_pool(), paused_profile()), INSTALLATION, NOW).status
    assert urgency(status, status.model_copy(update={"queue_depth": 9})) is Urgency.NOTHING
