"""The whole handshake through the reconciler: what is written where, in which order, and that a restart changes nothing."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from pool_objects import engine_pod, raw_pool, raw_profile
from pool_world import World

from workslice_api.names import DELETION_COST_ANNOTATION
from workslice_operator.drain import MARKED_COST
from workslice_operator.kube_api import Refused
from workslice_operator.observed import EngineLoad, ReplicaUse, RouterReport

IDLE = ReplicaUse(0, 0, acknowledged=True)
BUSY = ReplicaUse(1, 40, acknowledged=False)


@pytest.fixture
async def world() -> World:
    """Two ready replicas of a pool that is then asked for one."""
    made = World(raw_pool(replicas=2), raw_profile(), engine_pod("a"), engine_pod("b", created=9))
    await made.reconcile()
    ask_for(made, 1)
    return made


def ask_for(world: World, replicas: int) -> None:
    generation = world.pool.metadata.generation + 1
    status = world.kube.objects["WorkspacePool", "shop", "chat"]["status"]
    world.kube.put(raw_pool(replicas=replicas, generation=generation) | {"status": status})


def say(world: World, **uses: ReplicaUse) -> None:
    asked = world.now + timedelta(seconds=2)
    world.report = RouterReport(asked, 1, {f"uid-{name}": use for name, use in uses.items()})


def size(world: World) -> int:
    return int(world.kube.objects["Deployment", "shop", "chat-engine"]["spec"]["replicas"])


def cost(world: World, name: str) -> str | None:
    annotations = world.kube.objects["Pod", "shop", name]["metadata"].get("annotations") or {}
    return annotations.get(DELETION_COST_ANNOTATION)


def reasons(world: World) -> list[str]:
    return [one["reason"] for (kind, _, _), one in world.kube.objects.items() if kind == "Event"]


async def test_the_mark_reaches_pod_and_status_and_the_size_stays(world: World) -> None:
    say(world, a=BUSY, b=IDLE)
    await world.reconcile(after=1)
    assert (size(world), cost(world, "b"), cost(world, "a")) == (2, str(MARKED_COST), None)
    assert world.pool.status.draining == ["uid-b"]
    assert [mark.name for mark in world.pool.status.drain_marks] == ["b"]
    assert world.pool.status.desired_replicas == 1
    writes = [kind for _, kind, _ in world.kube.writes if kind in ("Pod", "WorkspacePool")]
    assert writes == ["Pod", "WorkspacePool"], "the cost is there before routers can acknowledge the mark"


async def test_after_routers_and_engine_the_deployment_shrinks_by_one(world: World) -> None:
    await world.reconcile(after=1)
    say(world, a=IDLE, b=IDLE)
    await world.reconcile(after=2)
    assert (size(world), world.reason("Draining")) == (2, "WaitingForEngine")
    world.engines["ip-b"] = EngineLoad(0, 0)
    world.engines["ip-a"] = EngineLoad(9, 9)
    say(world, a=IDLE, b=IDLE)
    await world.reconcile(after=2)
    assert (size(world), world.reason("Draining")) == (1, "Removing")
    pod = world.kube.objects["Pod", "shop", "b"]
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    await world.reconcile(after=2)
    assert world.pool.status.drain_marks == []
    assert world.pool.status.draining == ["uid-b"], "terminating ones stay listed"
    assert world.reason("Draining") == "ReplicasTerminating"
    assert {"DrainStarted", "ReplicaGone"} <= set(reasons(world))
    assert "DrainTimedOut" not in reasons(world)


async def test_a_restart_goes_on_where_the_last_process_was(world: World) -> None:
    world.now = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
    await world.reconcile(after=1)
    marks = world.pool.status.drain_marks
    world.start()
    await world.reconcile(after=60)
    assert (world.pool.status.drain_marks, size(world)) == (marks, 2)
    world.start()
    await world.reconcile(after=61)
    assert size(world) == 1, "the deadline counts from the mark, not from the restart"
    assert "DrainTimedOut" in reasons(world)


async def test_load_that_returns_takes_mark_and_cost_away(world: World) -> None:
    await world.reconcile(after=1)
    ask_for(world, 2)
    await world.reconcile(after=2)
    assert (size(world), cost(world, "b")) == (2, None)
    assert (world.pool.status.draining, world.reason("Draining")) == ([], "NotDraining")
    assert "DrainCalledBack" in reasons(world)


async def test_when_another_replica_went_the_mark_is_withdrawn(world: World) -> None:
    await world.reconcile(after=1)
    world.engines["ip-b"] = EngineLoad(0, 0)
    say(world, a=IDLE, b=IDLE)
    await world.reconcile(after=2)
    assert size(world) == 1
    world.kube.remove("Pod", "shop", "a")
    await world.reconcile(after=2)
    assert (world.pool.status.draining, cost(world, "b"), size(world)) == ([], None, 1)
    assert "DrainWithdrawn" in reasons(world)


async def test_routers_that_speak_wake_a_pool_that_drains(world: World) -> None:
    await world.reconcile(after=1)
    world.woken.clear()
    world.reconciler.demand_changed()
    assert [str(key) for key in world.woken] == ["WorkspacePool shop/chat"]


async def test_an_operator_that_may_not_mark_pods_says_so_and_removes_none(world: World) -> None:
    world.kube.failures["patch", "Pod"] = Refused(403, "pods is forbidden")
    await world.reconcile(after=1)
    await world.reconcile(after=300)
    assert (size(world), world.reason("Degraded")) == (2, "ApplyFailed")
    assert "pods is forbidden" in str(world.kube.objects["WorkspacePool", "shop", "chat"]["status"])


async def test_a_new_template_and_a_smaller_size_in_one_edit_roll_first(world: World) -> None:
    world.kube.put(raw_pool(replicas=1, generation=9, drain={"timeout": "30s"}))
    await world.reconcile(after=1)
    assert (size(world), world.reason("Draining")) == (2, "HeldByRollout")
    assert cost(world, "b") is None


async def test_an_engine_is_asked_at_most_once_in_a_reconcile_and_only_the_marked_one(world: World) -> None:
    asked: list[str] = []

    async def ask(address: str) -> None:
        asked.append(address)

    world.ask_engine = ask  # type: ignore[method-assign,assignment]
    world.start()
    await world.reconcile(after=1)
    await asyncio.sleep(0)
    asked.clear()  # one was asked for the size of its KV cache, and did not say
    await world.reconcile(after=1)
    assert asked == []
    say(world, a=replace(IDLE, acknowledged=False), b=IDLE)
    await world.reconcile(after=2)
    assert asked == ["ip-b"]
