"""Faults between objects show as conditions that say what to do, and heal when the fault goes."""

import time
from collections.abc import Callable

import openai
import pytest
from demo.pool_state import condition
from demo.question import SHORT_QUESTION, ask
from demo.waiting import NotYet, wait_until

import manifests
from installed import MODEL, Installation
from scratch import Scratch


def test_a_pool_without_its_profile_says_so_and_heals_when_the_profile_comes(scratch: Scratch) -> None:
    scratch.pool()
    message = scratch.wait_for("ProfileReady", "False", "ProfileNotFound")
    assert scratch.namespace in message
    assert scratch.cluster.objects("deployments", scratch.namespace) == []
    scratch.profile()
    scratch.wait_for("ProfileReady", "True", "ProfileFound")
    scratch.wait_for("SlicesGranted", "False", "NoFreeSlice")
    assert len(scratch.pods()) == 1


def test_deleting_a_profile_leaves_the_running_engines_alone(
    pools: Installation, restore_pools: Callable[[], None]
) -> None:
    def engines() -> set[str]:
        return {pod["metadata"]["uid"] for pod in pools.cluster.objects("pods", "demo")}

    before = engines()
    pools.cluster.kubectl("delete", "wsprof", "demo-long")
    try:

        def noticed() -> None:
            found = condition(pools.cluster.get("wspool", "long", "demo"), "ProfileReady")
            if found["reason"] != "ProfileNotFound":
                raise NotYet(f"{found}")

        wait_until("the pool to miss its profile", noticed, seconds=30)
        headers = {"x-workslice-class": "long"}
        answer = ask(pools.client(), MODEL, SHORT_QUESTION, stream=False, extra_headers=headers)
        assert answer.pool == "demo/long"
        assert engines() == before
    finally:
        restore_pools()
    assert engines() == before


def test_a_profile_for_other_namespaces_starts_nothing_until_it_is_allowed_and_stops_nothing_when_it_is_not(
    scratch: Scratch,
) -> None:
    scratch.profile(allowedNamespaces=["demo"])
    scratch.pool()
    message = scratch.wait_for("ProfileReady", "False", "ProfileNotAllowed")
    assert f"add {scratch.namespace} to allowedNamespaces of the profile" in message
    assert scratch.cluster.objects("deployments", scratch.namespace) == []
    scratch.profile(allowedNamespaces=["demo", scratch.namespace])
    scratch.wait_for("SlicesGranted", "False", "NoFreeSlice")
    (before,) = scratch.pods()
    scratch.profile(allowedNamespaces=["demo"])
    scratch.wait_for("ProfileReady", "False", "ProfileNotAllowed")
    assert [pod["metadata"]["uid"] for pod in scratch.pods()] == [before["metadata"]["uid"]]
    (deployment,) = scratch.cluster.objects("deployments", scratch.namespace)
    assert deployment["spec"]["replicas"] == 1


def test_a_class_larger_than_the_context_is_named_with_both_numbers(scratch: Scratch) -> None:
    scratch.profile(workspace={"maxTokens": 4096, "maxConcurrent": 8})
    scratch.pool(requestClass={"name": "any", "maxTotalTokens": 5000})
    message = scratch.wait_for("ProfileReady", "False", "ClassExceedsContext")
    assert "5000" in message
    assert "4096" in message
    assert scratch.pods() == []


def test_a_model_name_of_another_namespace_is_a_conflict_that_names_the_owner(
    pools: Installation, scratch: Scratch
) -> None:
    scratch.profile()
    scratch.pool(model=f"{MODEL}-latest")  # an alias of the demo's pools
    message = scratch.wait_for("Conflict", "True", "ModelOwnedElsewhere")
    assert "demo" in message
    assert scratch.pods() == []
    assert ask(pools.client(), f"{MODEL}-latest", SHORT_QUESTION, stream=False).pool == "demo/short"


def test_a_quota_that_refuses_pods_reaches_the_condition_and_heals(scratch: Scratch) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": scratch.namespace}}
    scratch.cluster.apply([quota | {"spec": {"hard": {"pods": "0"}}}])
    scratch.profile()
    scratch.pool()
    message = scratch.wait_for("EnginesReady", "False", "PodsRefused")
    assert "quota" in message
    scratch.cluster.kubectl("delete", "resourcequota", "none", "-n", scratch.namespace)
    scratch.wait_for("SlicesGranted", "False", "NoFreeSlice", seconds=120)


def test_a_volume_claim_that_does_not_exist_is_named_and_requests_are_refused_at_once(
    installation: Installation, scratch: Scratch
) -> None:
    scratch.profile(model={"source": "pvc://nothing-here/tiny"})
    scratch.pool(queue={"maxWait": "10m"})
    message = scratch.wait_for("EnginesReady", "False", "ModelVolumeMissing")
    assert "nothing-here" in message
    began = time.monotonic()
    with pytest.raises(openai.InternalServerError, match="No replica of model") as refused:
        ask(installation.client(), scratch.namespace, SHORT_QUESTION, stream=False)
    assert refused.value.status_code == 503
    assert time.monotonic() - began < 10


def test_a_volume_that_cannot_be_mounted_is_named(scratch: Scratch) -> None:
    scratch.profile(slice_profile="1g.10gb")
    volume = {"name": "settings", "configMap": {"name": "nothing-here"}}
    scratch.pool(template={"volumes": [volume], "volumeMounts": [{"name": "settings", "mountPath": "/settings"}]})
    said = scratch.wait_for("EnginesReady", "False", "VolumeFailed", saying='configmap "nothing-here" not found')
    assert said.endswith("create what it names, or correct template.volumes of the pool")


def test_a_pod_setting_that_pod_security_refuses_reaches_the_condition(scratch: Scratch) -> None:
    scratch.profile()
    scratch.pool(template={"volumes": [{"name": "host", "hostPath": {"path": "/"}}]})
    message = scratch.wait_for("EnginesReady", "False", "PodsRefused")
    assert "PodSecurity" in message
    assert manifests.NO_SUCH_SLICE not in message


def test_a_size_that_is_set_where_demand_decides_is_answered_with_what_to_set_instead(scratch: Scratch) -> None:
    scratch.profile()
    scratch.pool(scaling={"mode": "QueueDepth", "maxReplicas": 2})
    scratch.wait_for("SlicesGranted", "False", "NoFreeSlice")
    assert "ReplicasNotUsed" not in scratch.events()
    scratch.cluster.kubectl("scale", "wspool", "pool", "-n", scratch.namespace, "--replicas=5")
    scratch.wait_for_events(
        "ReplicasNotUsed: spec.replicas (5, as kubectl scale sets it) is not used in mode QueueDepth"
    )
    found = condition(scratch.cluster.get("wspool", "pool", scratch.namespace), "Scaling")
    assert "set scaling.minReplicas and scaling.maxReplicas" in found["message"]
