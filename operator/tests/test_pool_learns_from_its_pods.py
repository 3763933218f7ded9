import pytest
from pool_objects import engine_pod, raw_pool, raw_profile
from pool_world import World

from workslice_operator.keys import profile_key


@pytest.fixture
def world() -> World:
    return World(raw_pool(), raw_profile())


async def test_an_engine_that_was_not_warmed_up_is_explained_from_its_events(world: World) -> None:
    profile = raw_profile()
    world.kube.put(profile | {"spec": profile["spec"] | {"engine": {"warmup": {}}}})
    pod = engine_pod("chat-engine-1")
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:00:00Z"}
    pod["status"]["conditions"][1]["status"] = "False"
    pod["status"]["containerStatuses"] = [{"name": "engine", "state": {"terminated": ended}}]
    world.kube.put(pod)
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    world.kube.put({"kind": "Node", "metadata": {"name": "node-1"}, "spec": {}, "status": ready})
    said = "Startup probe failed: warm-up: /v1/completions answered 400: no"
    event = {"metadata": {"namespace": "shop", "name": "e"}, "reason": "Unhealthy", "message": said}
    world.kube.put({"kind": "Event", **event})
    await world.reconcile()
    assert world.reason("EnginesReady") == "WarmUpFailed"


@pytest.mark.parametrize("allowed", [None, ["shop"], ["lab"]])
async def test_the_profile_hears_what_a_pod_has_found_out_of_its_model_where_it_may_be_used(
    world: World, allowed: list[str] | None
) -> None:
    profile = raw_profile(source="org/tiny")
    profile["spec"] |= {"allowedNamespaces": allowed} if allowed else {}
    profile["spec"]["model"]["cache"] = {"claim": "models"}
    world.kube.put(profile)
    pod = engine_pod("chat-engine-1")
    ended = {"exitCode": 0, "message": '{"source": "org/tiny", "revision": "main"}'}
    pod["status"]["initContainerStatuses"] = [{"name": "model-fetch", "state": {"terminated": ended}}]
    await world.reconcile()
    world.kube.put(pod)
    await world.reconcile()
    assert world.woken == ([] if allowed == ["lab"] else [profile_key("small")])
    await world.reconcile()
    assert world.woken == []


async def test_the_profile_hears_at_once_of_a_start_that_took_unlike_the_others(world: World) -> None:
    def put(name: str, minute: int, seconds: int) -> None:
        pod = engine_pod(name)
        at = (f"2026-01-01T00:{minute:02}:00Z", f"2026-01-01T00:{minute:02}:{seconds:02}Z")
        times = dict(zip(("PodScheduled", "Ready"), at, strict=True))
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": when} for kind, when in times.items()]
        world.kube.put(pod | {"status": pod["status"] | {"conditions": conditions}})

    await world.reconcile()
    heard = []
    for minute, seconds in enumerate((40, 42, 59), start=1):
        put(f"chat-engine-{minute}", minute, seconds)
        await world.reconcile()
        heard.append(profile_key("small") in world.woken)
        profile = world.kube.objects["WorkspaceProfile", "", "small"]
        world.kube.put(profile | {"status": {"startSeconds": 40}})
    assert heard == [True, False, True]
