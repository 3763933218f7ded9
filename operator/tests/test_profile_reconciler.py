from datetime import UTC, datetime
from typing import Any

from fake_kube import FakeKube
from pool_facts import make_pod
from pool_objects import raw_pool, raw_profile

from workslice_api.names import PAUSED_ANNOTATION
from workslice_api.profile import WorkspaceProfile
from workslice_operator.event_writer import EventWriter
from workslice_operator.found_models import FoundModels
from workslice_operator.keys import Key, pool_key, profile_key
from workslice_operator.kube_api import PROFILES
from workslice_operator.load_observed import shared_inventory
from workslice_operator.memory_settings import settings_digest
from workslice_operator.metrics import Metrics
from workslice_operator.observed import ModelFetch
from workslice_operator.profile_reconciler import ProfileReconciler
from workslice_operator.readable import PoolList
from workslice_operator.shared_read import SharedRead
from workslice_operator.slice_inventory import SliceInventory, slice_inventory

KEY = profile_key("small")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODE: dict[str, Any] = {
    "kind": "Node",
    "metadata": {"name": "n", "labels": {}},
    "status": {
        "allocatable": {"nvidia.com/mig-1g.10gb": "3"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def reconciler(
    kube: FakeKube,
    woken: list[Key],
    inventory: SharedRead[SliceInventory | None] | None = None,
    found: FoundModels | None = None,
) -> ProfileReconciler:
    return ProfileReconciler(
        kube,
        PoolList(kube),
        inventory or shared_inventory(kube),
        EventWriter(kube, "test", lambda: NOW),
        Metrics(),
        woken.append,
        lambda: NOW,
        found or FoundModels(woken.append),
    )


async def test_its_status_lists_its_pools_and_is_written_once() -> None:
    kube = FakeKube(NODE, raw_profile(), raw_pool(), raw_pool("other", profileRef={"name": "large"}))
    profiles = reconciler(kube, [])
    assert await profiles.reconcile(KEY) is None
    assert await profiles.reconcile(KEY) is None
    status = kube.objects["WorkspaceProfile", "", "small"]["status"]
    assert (status["pools"], status["poolCount"]) == (["shop/chat"], 1)
    assert kube.written("WorkspaceProfile") == ["status"]


async def test_a_change_wakes_its_pools_and_a_look_without_change_does_not() -> None:
    kube, woken = FakeKube(NODE, raw_profile(), raw_pool()), list[Key]()
    profiles = reconciler(kube, woken)
    await profiles.reconcile(KEY)
    await profiles.reconcile(KEY)
    assert woken == [pool_key("shop", "chat")]
    kube.put(raw_profile(generation=2))
    await profiles.reconcile(KEY)
    assert len(woken) == 2


async def test_its_deletion_wakes_its_pools() -> None:
    kube, woken = FakeKube(NODE, raw_profile(), raw_pool()), list[Key]()
    profiles = reconciler(kube, woken)
    await profiles.reconcile(KEY)
    kube.remove("WorkspaceProfile", "", "small")
    assert await profiles.reconcile(KEY) is None
    assert woken == [pool_key("shop", "chat")] * 2
    assert profiles.known_keys() == ()


async def test_a_profile_without_slices_looks_again_since_no_event_tells_of_nodes() -> None:
    kube = FakeKube(raw_profile())
    assert await reconciler(kube, []).reconcile(KEY) is not None


async def test_a_paused_profile_is_written_once_more_and_wakes_its_pools_both_times() -> None:
    kube, woken = FakeKube(NODE, raw_profile(), raw_pool()), list[Key]()
    profiles = reconciler(kube, woken)
    await profiles.reconcile(KEY)
    for value, reason in (("true", "Paused"), (None, "Resumed")):
        woken.clear()
        kube.writes.clear()
        patch = {"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}
        await kube.merge_patch(PROFILES, "", "small", patch)
        kube.objects["WorkspaceProfile", "", "small"]["metadata"]["generation"] = 1
        for _ in range(2):
            await profiles.reconcile(KEY)
        assert woken == [pool_key("shop", "chat")]
        assert kube.writes[1:] == [("create", "Event", kube.writes[1][2]), ("status", "WorkspaceProfile", "small")]
        assert kube.objects["Event", "default", kube.writes[1][2]]["reason"] == reason
        types = [one["type"] for one in kube.objects["WorkspaceProfile", "", "small"]["status"]["conditions"]]
        assert ("Paused" in types) == (value is not None)


async def test_a_change_of_a_paused_profile_writes_nothing() -> None:
    raw = raw_profile()
    raw["metadata"]["annotations"] = {PAUSED_ANNOTATION: "true"}
    kube = FakeKube(NODE, raw, raw_pool())
    profiles = reconciler(kube, [])
    await profiles.reconcile(KEY)
    kube.writes.clear()
    kube.objects["WorkspaceProfile", "", "small"]["metadata"]["generation"] = 7
    await profiles.reconcile(KEY)
    assert kube.writes == []


async def test_a_verdict_that_changes_with_the_nodes_wakes_the_pools_and_is_looked_for() -> None:
    profile = raw_profile()
    numbers = ("parameters", "layers", "hiddenSize", "intermediateSize", "kvHeads", "headSize", "vocabulary")
    profile["spec"]["model"]["shape"] = dict.fromkeys(numbers, 1) | {"parameters": 8 * 10**9}
    kube, woken, nodes = FakeKube(profile, raw_pool()), list[Key](), [labelled("9984")]

    async def read() -> SliceInventory | None:
        return slice_inventory(nodes, [])

    profiles = reconciler(kube, woken, SharedRead(read, 0.0))
    assert await profiles.reconcile(KEY) is not None
    conditions = kube.objects["WorkspaceProfile", "", "small"]["status"]["conditions"]
    assert {one["type"]: one["status"] for one in conditions}["Fits"] == "False"
    nodes[:] = [labelled("40320")]
    assert await profiles.reconcile(KEY) is None
    assert woken == [pool_key("shop", "chat")] * 2


async def test_a_measurement_far_from_the_estimate_is_told_once() -> None:
    profile = raw_profile()
    numbers = ("parameters", "layers", "hiddenSize", "intermediateSize", "kvHeads", "headSize", "vocabulary")
    profile["spec"]["model"]["shape"] = dict.fromkeys(numbers, 1) | {"layers": 32, "kvHeads": 8, "headSize": 128}
    digest = settings_digest(WorkspaceProfile.model_validate(profile), "1g.10gb")
    pool = raw_pool() | {"status": {"slices": {"profile": "1g.10gb", "kvTokens": 40_000, "measuredFor": digest}}}
    kube = FakeKube(labelled("9984"), profile, pool)
    profiles = reconciler(kube, [])
    await profiles.reconcile(KEY)
    status = kube.objects["WorkspaceProfile", "", "small"]["status"]
    assert [(one["source"], one["kvTokens"], one["fits"]) for one in status["slices"]] == [("measured", 40_000, True)]
    kube.remove("WorkspacePool", "shop", "chat")
    await reconciler(kube, []).reconcile(KEY)
    (event,) = [one for (kind, _, _), one in kube.objects.items() if kind == "Event"]
    assert (event["reason"], event["count"]) == ("EstimateOff", 1)
    assert "engines have 40,000 tokens of KV cache, the estimate was" in event["message"]
    assert kube.objects["WorkspaceProfile", "", "small"]["status"]["slices"][0]["kvTokens"] == 40_000


def labelled(mebibytes: str) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": "A", "nvidia.com/mig-1g.10gb.memory": mebibytes}
    return NODE | {"metadata": {"name": "n", "labels": labels}}


async def test_the_status_of_an_unreadable_profile_says_what_to_correct_and_its_pools_hear_of_it() -> None:
    raw = raw_profile()
    raw["spec"]["memory"] = {"gpuUtilization": "much"}
    kube, woken = FakeKube(NODE, raw, raw_pool()), list[Key]()
    profiles = reconciler(kube, woken)
    for _ in range(2):
        assert await profiles.reconcile(KEY) is None
    (said,) = kube.objects["WorkspaceProfile", "", "small"]["status"]["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("Accepted", "False", "SpecInvalid")
    assert "spec.memory.gpuUtilization" in said["message"]
    assert kube.written("WorkspaceProfile") == ["status"]
    assert woken == [pool_key("shop", "chat")]


async def test_what_a_pool_has_found_out_of_its_model_stands_in_the_status() -> None:
    profile = raw_profile(source="org/tiny")
    profile["spec"]["model"]["cache"] = {"claim": "models"}
    kube, woken = FakeKube(NODE, profile, raw_pool()), list[Key]()
    found = FoundModels(woken.append)
    said = ModelFetch(done=True, failure="", found='{"source": "org/tiny", "revision": "main"}')
    found.tell(WorkspaceProfile.model_validate(profile), [make_pod(fetch=said)])
    assert woken == [KEY]
    await reconciler(kube, woken, found=found).reconcile(KEY)
    await reconciler(kube, woken).reconcile(KEY)  # a new process
    status = kube.objects["WorkspaceProfile", "", "small"]["status"]
    assert (status["model"]["source"], status["model"]["revision"]) == ("org/tiny", "main")
    assert kube.written("WorkspaceProfile") == ["status"]
