import os
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from pool_facts import INSTALLATION, NOW, make_observed, make_pool, make_profile, new_deployment

from workslice_operator.installation import Installation
from workslice_operator.plan import plan
from workslice_operator.render.network_policy import network_policy
from workslice_operator.rendered_children import rendered_children

GOLDEN = Path(__file__).parent / "golden"
MODELS: dict[str, Any] = {
    "Deployment": client.V1Deployment,
    "Service": client.V1Service,
    "PodDisruptionBudget": client.V1PodDisruptionBudget,
    "NetworkPolicy": client.V1NetworkPolicy,
}
PLAIN = (make_pool(), make_profile())
EVERYTHING = (
    make_pool(
        "long",
        profileRef={"name": "large"},
        replicas=2,
        drain={"timeout": "5m"},
        template={
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "nodeSelector": {"disk": "fast"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                        ]
                    }
                }
            },
            "priorityClassName": "serving",
            "schedulerName": "other-scheduler",
            "runtimeClassName": "nvidia",
            "imagePullSecrets": [{"name": "registry"}],
            "volumes": [{"name": "certificates", "configMap": {"name": "certificates"}}],
            "volumeMounts": [{"name": "certificates", "mountPath": "/certificates", "readOnly": True}],
            "modelSecretRef": {"name": "hub", "key": "token"},
            "serviceAccountName": "engines",
            "labels": {"team": "search"},
            "annotations": {"example.com/scrape": "yes"},
        },
    ),
    make_profile(
        model={"source": "pvc://weights/llama", "revision": "v1"},
        slice={"profiles": ["1g.10gb+me"], "products": ["NVIDIA-H100-80GB-HBM3"]},
        memory={"host": "12Gi", "kvCache": "2Gi", "gpuUtilization": 0.9},
        cpu={"request": "500m", "limit": "4"},
        workspace={"maxTokens": 32768, "maxConcurrent": 32},
        engine={
            "image": "registry.example.com/vllm:1",
            "version": "0.32.0+cpu",
            "extraArgs": ["--enforce-eager"],
            "env": [{"name": "OMP_NUM_THREADS", "value": "1"}, {"name": "HOME", "value": "/cache"}],
            "startupTimeout": "20m",
            "warmup": {"prefixes": [{"text": "You are helpful."}, {"text": "Once", "kind": "Prompt"}]},
        },
    ),
)


@pytest.mark.parametrize(("name", "given"), [("plain", PLAIN), ("everything", EVERYTHING)])
def test_the_children_of_a_pool_look_as_agreed(name: str, given: Any) -> None:
    text = rendered_children(make_observed(*given), INSTALLATION, NOW)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text, "run again with UPDATE_GOLDEN=1 if the change is wanted"


@pytest.mark.parametrize("given", [PLAIN, EVERYTHING], ids=["plain", "everything"])
def test_every_field_is_one_that_kubernetes_knows(given: Any) -> None:
    for manifest in plan(make_observed(*given), INSTALLATION, NOW).apply:
        parsed = MODELS[manifest["kind"]].model_validate(manifest)
        assert parsed.metadata.name == f"{given[0].metadata.name}-engine"


@pytest.mark.parametrize("given", [PLAIN, EVERYTHING], ids=["plain", "everything"])
def test_every_child_belongs_to_its_pool(given: Any) -> None:
    for manifest in plan(make_observed(*given), INSTALLATION, NOW).apply:
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("WorkspacePool", "pool-uid", True)


@pytest.mark.parametrize(
    ("profile", "resource"),
    [
        ("1g.10gb", "nvidia.com/mig-1g.10gb"),
        ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
        ("whole", "nvidia.com/gpu"),
    ],
)
def test_a_replica_asks_for_exactly_one_slice(profile: str, resource: str) -> None:
    spec = pod_spec(make_profile(slice={"profiles": [profile]}))
    limits = spec["containers"][0]["resources"]["limits"]
    assert {name: count for name, count in limits.items() if name.startswith("nvidia.com/")} == {resource: "1"}


def test_memory_is_a_hard_limit_and_cpu_is_not() -> None:
    resources = pod_spec(make_profile(memory={"host": "6Gi"}, cpu={"request": "2"}))["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "2", "memory": "6Gi"}
    assert resources["limits"]["memory"] == "6Gi"
    assert "cpu" not in resources["limits"]


def test_the_engine_gets_all_the_time_of_the_startup_timeout() -> None:
    probe = pod_spec(make_profile(engine={"startupTimeout": "15m"}))["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 900


def test_an_engine_is_warmed_up_only_where_the_profile_says_so() -> None:
    def probe(**engine: Any) -> Any:
        return pod_spec(make_profile(engine=engine))["containers"][0]["startupProbe"]

    assert "httpGet" in probe()
    assert "exec" in probe(warmup={})


def test_the_deployment_waits_longer_than_an_engine_may_take() -> None:
    manifest = new_deployment(make_pool(), make_profile(engine={"startupTimeout": "15m"}))
    assert manifest["spec"]["progressDeadlineSeconds"] > 900


def test_a_profiles_variable_wins_over_ours_and_appears_once() -> None:
    env = pod_spec(make_profile(engine={"env": [{"name": "HOME", "value": "/x"}]}))["containers"][0]["env"]
    assert [one for one in env if one["name"] == "HOME"] == [{"name": "HOME", "value": "/x"}]


def test_only_hub_models_may_reach_for_the_hub() -> None:
    def offline(source: str) -> bool:
        env = pod_spec(make_profile(model={"source": source}))["containers"][0]["env"]
        return any(one["name"] == "HF_HUB_OFFLINE" for one in env)

    assert [offline(one) for one in ("org/model", "/opt/model", "pvc://claim/model")] == [False, True, True]


CACHED = make_profile(model={"source": "org/model", "revision": "a/b", "cache": {"claim": "models"}})


def test_a_cached_model_is_fetched_before_the_engine_which_cannot_write_to_it_nor_reach_the_hub() -> None:
    spec = pod_spec(CACHED, make_pool(template={"modelSecretRef": {"name": "hub", "key": "token"}}))
    (fetch,), (engine,) = spec["initContainers"], spec["containers"]
    assert fetch["command"][:2] == ["python3", "-c"]
    assert fetch["command"][3:] == ["org/model", "a/b", "/model-cache/org--model/a--b"]
    assert engine["args"][0] == "/model-cache/org--model/a--b"
    assert "--revision" not in engine["args"]
    (of_fetch,) = (one for one in fetch["volumeMounts"] if one["mountPath"] == "/model-cache")
    (of_engine,) = (one for one in engine["volumeMounts"] if one["mountPath"] == "/model-cache")
    assert of_engine == {**of_fetch, "readOnly": True}
    (volume,) = (one for one in spec["volumes"] if one["name"] == of_fetch["name"])
    assert volume["persistentVolumeClaim"] == {"claimName": "models"}
    assert {one["name"]: one.get("value") for one in engine["env"]}["HF_HUB_OFFLINE"] == "1"
    assert {one["name"]: one.get("value") for one in fetch["env"]}["HF_HUB_OFFLINE"] == "0"
    assert ["HF_TOKEN" in {one["name"] for one in each["env"]} for each in (fetch, engine)] == [True, False]


def test_fetching_takes_no_more_than_the_engine() -> None:
    spec = pod_spec(CACHED)
    (fetch,), (engine,) = spec["initContainers"], spec["containers"]
    assert fetch["resources"] == engine["resources"]
    assert fetch["securityContext"] == engine["securityContext"]


def test_every_field_of_the_container_that_fetches_is_one_that_kubernetes_knows() -> None:
    client.V1PodSpec.model_validate(pod_spec(CACHED))


def test_labels_of_a_pool_never_replace_those_that_select_its_pods() -> None:
    pool = make_pool(template={"labels": {"workslice.dev/pool": "other"}})
    assert (
        new_deployment(pool, make_profile())["spec"]["template"]["metadata"]["labels"]["workslice.dev/pool"] == "short"
    )


def test_a_policy_without_peers_lets_nobody_in() -> None:
    assert network_policy(make_pool(), Installation("workslice"))["spec"]["ingress"] == []


def pod_spec(profile: Any, pool: Any = None) -> Any:
    return new_deployment(pool or make_pool(), profile)["spec"]["template"]["spec"]
