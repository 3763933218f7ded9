import asyncio
from datetime import timedelta

import pytest
from pool_objects import child, engine_pod, raw_pool, raw_profile
from pool_world import KEY, World

from workslice_operator.engine_measurer import AGAIN_SECONDS
from workslice_operator.keys import profile_key
from workslice_operator.kube_api import NamespaceGoing, Refused, Unavailable
from workslice_operator.observed import EngineLoad, QueueSignal
from workslice_operator.reconciler import PREDECESSOR_SECONDS

CHILDREN = {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}


@pytest.fixture
def world() -> World:
    return World(raw_pool(), raw_profile())


async def test_a_new_pool_gets_its_children_then_events_then_one_status_write(world: World) -> None:
    await world.reconcile()
    kinds = [kind for _, kind, _ in world.kube.writes]
    assert set(kinds[:4]) == CHILDREN
    assert kinds[4:-1] == ["Event"] * len(kinds[4:-1])
    assert kinds[-1] == "WorkspacePool"
    assert world.kube.written("WorkspacePool") == ["status"]
    assert world.pool.status.desired_replicas == 1


async def test_a_second_look_at_an_unchanged_pool_writes_nothing(world: World) -> None:
    await world.reconcile()
    await world.reconcile(after=60)
    assert world.kube.writes == []


async def test_a_restarted_operator_changes_nothing(world: World) -> None:
    await world.reconcile()
    before = {key: one["metadata"]["resourceVersion"] for key, one in world.kube.objects.items()}
    world.start()
    await world.reconcile(after=60)
    assert before == {key: one["metadata"]["resourceVersion"] for key, one in world.kube.objects.items()}


async def test_a_deleted_child_comes_back(world: World) -> None:
    await world.reconcile()
    world.kube.remove("Service", "shop", "chat-engine")
    await world.reconcile()
    assert world.kube.written("Service") == ["apply"]


async def test_an_edited_child_is_applied_again(world: World) -> None:
    await world.reconcile()
    edited = world.kube.objects["Deployment", "shop", "chat-engine"]
    world.kube.put({**edited, "spec": {**edited["spec"], "replicas": 9}})
    await world.reconcile()
    assert world.kube.objects["Deployment", "shop", "chat-engine"]["spec"]["replicas"] == 1


async def test_an_engine_is_asked_once_for_its_kv_cache_and_the_profile_hears_of_it(world: World) -> None:
    await world.reconcile()
    raw = world.kube.objects["Deployment", "shop", "chat-engine"]
    seen = {"observedGeneration": raw["metadata"].get("generation", 0), "replicas": 1, "updatedReplicas": 1}
    world.kube.put(raw | {"status": seen})
    world.kube.put(engine_pod("a"))
    await reconcile_and_measure(world)
    assert world.woken == [], "it did not answer"
    world.engines["ip-a"] = EngineLoad(0, 0, 31984)
    await reconcile_and_measure(world, after=60)
    assert world.woken == [], "it is not asked at every look"
    await reconcile_and_measure(world, after=AGAIN_SECONDS)
    assert world.woken == [KEY]
    await world.reconcile()
    assert world.pool.status.slices.kv_tokens == 31984
    assert world.woken == [profile_key("small")]
    world.engines.clear()
    world.start()
    await reconcile_and_measure(world, after=60)
    assert world.pool.status.slices.kv_tokens == 31984
    assert world.woken == [profile_key("small")], "as of every pool that a new process meets"


async def reconcile_and_measure(world: World, after: float = 0.0) -> None:
    await world.reconcile(after=after)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*(one for one in others if one.get_name().startswith("measure")))


async def test_an_engine_that_cannot_be_reached_holds_up_no_pool(world: World) -> None:
    await world.reconcile()
    world.kube.put(engine_pod("a"))
    never = asyncio.Event()

    async def ask(address: str) -> None:
        await never.wait()

    world.ask_engine = ask  # type: ignore[method-assign,assignment]
    world.start()
    async with asyncio.timeout(5):
        await world.reconcile()
        await world.reconcile(after=1)
    measuring = [one for one in asyncio.all_tasks() if one.get_name().startswith("measure")]
    assert len(measuring) == 1
    measuring[0].cancel()


async def test_numbers_are_written_at_most_every_thirty_seconds(world: World) -> None:
    await world.reconcile()
    world.demand = QueueSignal(queued=3, running=0)
    assert (await world.reconcile(after=10) or 0) <= 20
    assert world.kube.writes == []
    await world.reconcile(after=20)
    assert world.kube.written("WorkspacePool") == ["status"]
    assert world.pool.status.queue_depth == 3


async def test_a_decision_is_written_at_once_with_the_newest_numbers(world: World) -> None:
    await world.reconcile()
    world.demand = QueueSignal(queued=3, running=0)
    world.kube.put(raw_pool(generation=2, replicas=2) | {"status": world.pool.status.to_wire()})
    await world.reconcile(after=1)
    assert world.pool.status.desired_replicas == 2
    assert world.pool.status.queue_depth == 3
    assert "Event" in [kind for _, kind, _ in world.kube.writes]


async def test_a_scale_down_counts_its_window_although_its_begin_is_not_written_yet(world: World) -> None:
    scaling = {
        "mode": "QueueDepth",
        "minReplicas": 1,
        "maxReplicas": 4,
        "targetPerReplica": 1,
        "scaleDownWindow": "25s",
    }
    world.kube.put(raw_pool(scaling=scaling))
    world.demand = QueueSignal(queued=3, running=0)
    await world.reconcile()
    assert world.pool.status.desired_replicas == 3
    world.demand = QueueSignal(queued=0, running=0)
    await world.reconcile(after=1)
    await world.reconcile(after=1)
    await world.reconcile(after=26)
    assert world.pool.status.desired_replicas == 1


async def test_a_refused_child_is_a_condition_and_not_a_traceback(world: World) -> None:
    world.kube.failures["apply", "Deployment"] = Refused(403, "exceeded quota: count/deployments.apps")
    again = await world.reconcile()
    assert world.reason("Degraded") == "ApplyFailed"
    assert "exceeded quota" in str(world.kube.objects["WorkspacePool", "shop", "chat"]["status"])
    assert again is not None
    assert again <= 30
    assert world.kube.written("Service") == ["apply"], "the others are applied all the same"
    world.kube.failures.clear()
    await world.reconcile(after=30)
    assert world.reason("Degraded") == "AsExpected"


async def test_a_namespace_on_its_way_out_is_left_alone(world: World) -> None:
    world.kube.failures["apply", "Deployment"] = NamespaceGoing(403, "it is being terminated")
    assert await world.reconcile() is None
    assert world.kube.written("WorkspacePool") == []


async def test_an_api_that_is_away_is_left_to_the_queue(world: World) -> None:
    world.kube.failures["apply", "Deployment"] = Unavailable(503, "etcd is away")
    with pytest.raises(Unavailable):
        await world.reconcile()
    world.kube.failures.clear()
    await world.reconcile()
    assert world.pool.status.desired_replicas == 1


async def test_an_object_of_somebody_else_under_a_childs_name_is_not_touched() -> None:
    world = World(raw_pool(), raw_profile(), child("Service", ownerReferences=[], labels={"app": "mine"}))
    assert (await world.reconcile() or 0) <= 30
    assert world.kube.written("Service") == []
    assert world.reason("Degraded") == "NameTaken"


async def test_children_orphaned_by_a_pool_of_this_name_are_taken_over() -> None:
    world = World(raw_pool(), raw_profile(), child("Service", ownerReferences=[]))
    await world.reconcile()
    assert world.kube.written("Service") == ["apply"]


async def test_children_of_a_deleted_pool_of_this_name_are_waited_for() -> None:
    former = {"kind": "WorkspacePool", "name": "chat", "uid": "former", "controller": True}
    world = World(raw_pool(), raw_profile(), child("Deployment", ownerReferences=[former]))
    assert await world.reconcile() == PREDECESSOR_SECONDS
    assert world.kube.writes == []


async def test_a_pool_that_is_being_deleted_gets_no_more_applies(world: World) -> None:
    world.kube.objects["WorkspacePool", "shop", "chat"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert await world.reconcile() is None
    assert world.kube.writes == []


async def test_a_pool_that_is_gone_is_forgotten_and_its_profile_told(world: World) -> None:
    await world.reconcile()
    assert b'pool_desired_replicas{namespace="shop",pool="chat"}' in world.metrics.render()
    world.kube.remove("WorkspacePool", "shop", "chat")
    assert await world.reconcile() is None
    assert world.woken == [profile_key("small")]
    assert world.reconciler.known_keys() == ()
    assert b'pool="chat"' not in world.metrics.render()


async def test_an_unreadable_pool_stops_nobody(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.kube.put(raw_pool(replicas="many"))
    assert await world.reconcile() is None
    assert "spec.replicas" in caplog.text


async def test_the_status_of_an_unreadable_pool_says_what_to_correct_once_and_keeps_its_memory(world: World) -> None:
    memory = {"scaling": {"desired": 3}, "conditions": [{"type": "Scaling", "status": "False", "reason": "Steady"}]}
    world.kube.put({**raw_pool(replicas="many"), "status": memory})
    for _ in range(2):
        await world.reconcile()
    status = world.kube.objects["WorkspacePool", "shop", "chat"]["status"]
    said = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
    assert said == {"Ready": ("False", "PoolNotReady"), "Degraded": ("True", "SpecInvalid")}
    assert "spec.replicas" in status["conditions"][0]["message"]
    assert status["scaling"] == {"desired": 3}
    assert world.kube.written("WorkspacePool") == ["status"]
    assert world.kube.written("Event") == ["create"]
    assert (
        b'pool_fault{condition="Degraded",namespace="shop",pool="chat",reason="SpecInvalid"} 1'
        in world.metrics.render()
    )


async def test_an_unreadable_pool_that_is_paused_is_left_alone(world: World) -> None:
    raw = raw_pool(replicas="many")
    raw["metadata"]["annotations"] = {"workslice.dev/paused": "true"}
    world.kube.put(raw)
    await world.reconcile()
    assert world.kube.writes == []


async def test_an_unreadable_pool_that_goes_unseen_is_forgotten_by_a_resync(world: World) -> None:
    world.kube.put(raw_pool(replicas="many"))
    await world.reconcile()
    world.kube.remove("WorkspacePool", "shop", "chat")
    (key,) = world.reconciler.known_keys()
    assert await world.reconciler.reconcile(key) is None
    assert world.reconciler.known_keys() == ()
    assert b"SpecInvalid" not in world.metrics.render()


async def test_a_corrected_pool_goes_on(world: World) -> None:
    world.kube.put(raw_pool(replicas="many"))
    await world.reconcile()
    world.kube.put({**raw_pool(generation=2), "status": world.kube.objects["WorkspacePool", "shop", "chat"]["status"]})
    await world.reconcile()
    assert world.reason("Degraded") == "AsExpected"
    assert world.kube.written("Deployment") == ["apply"]


async def test_a_missing_volume_is_looked_for_in_the_pools_namespace(world: World) -> None:
    world.kube.put(raw_profile(source="pvc://weights/tiny"))
    await world.reconcile()
    assert world.reason("EnginesReady") == "ModelVolumeMissing"
    world.kube.put({"kind": "PersistentVolumeClaim", "metadata": {"namespace": "shop", "name": "weights"}})
    await world.reconcile()
    assert world.reason("EnginesReady") != "ModelVolumeMissing"


async def test_an_engine_whose_core_died_is_explained_from_its_log(world: World) -> None:
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:00:00Z"}
    pod = child("Pod", "chat-engine-1", uid="one", creationTimestamp="2026-01-01T00:00:00Z")
    pod["spec"] = {"nodeName": "gpu-7", "containers": [{"name": "engine"}]}
    pod["status"] = {"phase": "Running", "containerStatuses": [{"name": "engine", "state": {"terminated": ended}}]}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    world.kube.put({"kind": "Node", "metadata": {"name": "gpu-7"}, "spec": {}, "status": ready})
    world.kube.put(pod)
    world.kube.logs["chat-engine-1", False] = "(APIServer pid=1) WARNING [x.py:1] engine core exited unexpectedly"
    await world.reconcile()
    said = next(one for one in world.pool.status.conditions if one.type == "EnginesReady")
    assert said.reason == "CrashLooping"
    assert "the EngineCore process of chat-engine-1 was killed or crashed without a word" in said.message


def put_free_slice(world: World) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/mig-1g.10gb": "1"}}
    world.kube.put({"kind": "Node", "metadata": {"name": "gpu-7"}, "spec": {}, "status": ready})


def put_waiting_pod(world: World, refused: bool) -> None:
    said = "0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    pod = child("Pod", "chat-engine-1", uid="one", creationTimestamp="2026-01-01T00:00:00Z")
    world.kube.put(pod | {"status": {"phase": "Pending", "conditions": [condition] if refused else []}})


async def test_a_scheduler_that_goes_on_refusing_a_free_slice_is_believed_after_a_minute_and_asked_less_often(
    world: World,
) -> None:
    put_free_slice(world)
    put_waiting_pod(world, refused=True)
    assert await world.reconcile() == 4
    assert await world.reconcile(after=59) == 4
    assert world.reason("SlicesGranted") == "SlicesUnknown"
    assert await world.reconcile(after=1) == 10
    assert world.reason("SlicesGranted") == "Unschedulable"


async def test_a_new_disagreement_has_its_own_minute(world: World) -> None:
    put_free_slice(world)
    put_waiting_pod(world, refused=True)
    await world.reconcile()
    put_waiting_pod(world, refused=False)
    await world.reconcile(after=30)
    put_waiting_pod(world, refused=True)
    await world.reconcile(after=30)
    assert world.reason("SlicesGranted") == "SlicesUnknown"


async def test_demand_wakes_the_pools_that_it_concerns(world: World) -> None:
    world.kube.put(raw_pool(scaling={"mode": "QueueDepth", "maxReplicas": 4, "targetPerReplica": 1}))
    world.demand = QueueSignal(queued=1, running=0)
    await world.reconcile()
    world.woken.clear()
    world.reconciler.demand_changed()
    assert world.woken == []
    world.demand = QueueSignal(queued=2, running=0)
    world.reconciler.demand_changed()
    assert world.woken == [KEY]


async def test_a_surge_wakes_a_pool_at_its_second_look(world: World) -> None:
    world.kube.put(raw_pool(scaling={"mode": "QueueDepth", "maxReplicas": 9, "targetPerReplica": 4}))
    world.demand = QueueSignal(queued=4, running=0)
    await world.reconcile()
    world.reconciler.demand_changed()
    world.woken.clear()
    world.demand = QueueSignal(queued=30, running=0)
    world.reconciler.demand_changed()
    await world.reconcile()
    assert world.pool.status.desired_replicas == 2
    world.reconciler.demand_changed()
    assert world.woken == [KEY]
    await world.reconcile()
    assert world.pool.status.desired_replicas == 8


async def test_old_numbers_wake_a_pool_that_does_not_scale(world: World) -> None:
    world.demand = QueueSignal(queued=1, running=0)
    await world.reconcile()
    world.woken.clear()
    world.demand = QueueSignal(queued=2, running=0)
    world.reconciler.demand_changed()
    assert world.woken == []
    world.now += timedelta(seconds=30)
    world.reconciler.demand_changed()
    assert world.woken == [KEY]


async def test_the_metric_of_the_queue_shows_each_reading_whether_or_not_it_wakes_the_pool(world: World) -> None:
    def shown() -> list[bytes]:
        lines = world.metrics.render().splitlines()
        return [line.split()[1] for line in lines if line.startswith(b"workslice_operator_pool_queue_depth{")]

    world.demand = QueueSignal(queued=1, running=0)
    await world.reconcile()
    world.demand = QueueSignal(queued=2, running=1)
    world.reconciler.demand_changed()
    assert shown() == [b"3.0"]
    world.demand = None
    world.reconciler.demand_changed()
    assert shown() == []
