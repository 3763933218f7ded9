from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from fake_kube import FakeKube
from pool_objects import raw_pool, raw_profile
from pool_world import World

from workslice_operator.declared import declared
from workslice_operator.installation import Installation
from workslice_operator.kube_api import NotFound, Refused
from workslice_operator.plan_command import NotPlanned, as_text, planned_changes, running_installation

NOW = datetime(2026, 1, 1, tzinfo=UTC)
INSTALLATION = Installation("workslice", {"app": "router"}, {"app": "operator"})


async def plan_of(kube: FakeKube, *objects: dict[str, Any]) -> str:
    files = declared([("files", yaml.safe_dump_all(objects))], "shop") if objects else None
    kube.writes.clear()
    text = as_text(await planned_changes(kube, files, INSTALLATION, {}, NOW))
    assert kube.writes == []
    return text


async def running(**spec: Any) -> FakeKube:
    world = World(raw_pool(**spec), raw_profile())
    await world.reconcile()
    return world.kube


async def test_a_new_pool_shows_every_child_that_it_would_get() -> None:
    text = await plan_of(FakeKube(), raw_pool(), raw_profile())
    assert "WorkspacePool shop/chat: new: 1 engine pod to start" in text
    for kind in ("NetworkPolicy", "Service", "PodDisruptionBudget", "Deployment"):
        assert f"+++ {kind} shop/chat-engine (planned)" in text


async def test_without_files_a_settled_pool_shows_no_change() -> None:
    assert await plan_of(await running()) == "# WorkspacePool shop/chat: no change\n"


async def test_a_live_field_replaces_no_engine_pod() -> None:
    text = await plan_of(await running(), raw_pool(replicas=3))
    assert "from 1 to 3 engine pods; no engine pod is replaced" in text
    assert "-  replicas: 1\n+  replicas: 3\n" in text


async def test_a_rolling_field_of_a_profile_shows_every_pool_that_uses_it() -> None:
    kube = await running()
    kube.put(raw_pool("second", uid="other-uid"))
    text = await plan_of(kube, raw_profile(source="/models/next"))
    assert "WorkspacePool shop/chat: 1 engine pod to replace, one at a time" in text
    assert "-        - /models/tiny\n+        - /models/next\n" in text
    assert "WorkspacePool shop/second: new" in text


async def test_a_pool_whose_profile_is_missing_says_so() -> None:
    text = await plan_of(FakeKube(), raw_pool())
    assert "nothing is applied: WorkspaceProfile small does not exist" in text


async def test_replicas_that_kubectl_scale_has_set_stay() -> None:
    assert await plan_of(await running(replicas=3), raw_pool()) == "# WorkspacePool shop/chat: no change\n"


async def test_a_field_that_was_applied_last_and_is_gone_from_the_file_is_taken_away() -> None:
    kube = await running(replicas=3)
    live = raw_pool(replicas=3)
    last = {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {"replicas": 3, "model": "tiny"}}'}
    kube.put(live | {"metadata": live["metadata"] | {"annotations": last}})
    assert "from 3 to 1 engine pod" in await plan_of(kube, raw_pool())


async def test_a_refused_object_is_told_with_the_words_of_the_api() -> None:
    kube = FakeKube()
    kube.failures["dry-apply", "WorkspacePool"] = Refused(422, "spec.model cannot be changed")
    with pytest.raises(NotPlanned, match=r"WorkspacePool shop/chat: the API refuses it: spec.model cannot be changed"):
        await plan_of(kube, raw_pool(), raw_profile())


async def test_a_cluster_without_the_crds_is_told_what_to_install() -> None:
    kube = FakeKube()
    kube.failures["list", "WorkspacePool"] = NotFound(404, "HTTP 404: 404 page not found")
    with pytest.raises(NotPlanned, match=r"does not know workslice.dev/v1alpha1: install the chart"):
        await plan_of(kube, raw_pool(), raw_profile())


async def test_a_refused_child_is_told_too() -> None:
    kube = FakeKube()
    kube.failures["dry-apply", "Deployment"] = Refused(403, "no rights")
    assert "the API refuses the Deployment: no rights" in await plan_of(kube, raw_pool(), raw_profile())


async def test_the_installation_is_read_from_the_operator_that_runs() -> None:
    container = {"args": ["--router-selector=app=r", '--model-owners={"tiny": "lab"}', "--new-flag=1", "--bare"]}
    labels = {"app.kubernetes.io/part-of": "workslice", "app.kubernetes.io/component": "operator"}
    metadata = {"name": "workslice-operator", "namespace": "infra", "labels": labels}
    spec = {"template": {"spec": {"containers": [container]}}}
    kube = FakeKube({"kind": "Deployment", "metadata": metadata, "spec": spec})
    assert await running_installation(kube) == (Installation("infra", {"app": "r"}, {}), {"tiny": "lab"})
    assert await running_installation(FakeKube()) is None
