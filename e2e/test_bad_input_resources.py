"""The API server refuses resources that cannot work, in words that say what to do; nothing is stored."""

from typing import Any

import pytest

import manifests
from installed import Installation
from workslice_cluster.cluster_error import ClusterError
from workslice_operator.resource_faults import resource_faults

IMAGE = "localhost/none:1"


def refusal(installation: Installation, manifest: dict[str, Any]) -> str:
    """Apply, expect a refusal, and return the API server's message."""
    with pytest.raises(ClusterError) as refused:
        installation.cluster.apply([manifest])
    return str(refused.value)


def bad_pool(**spec: Any) -> dict[str, Any]:
    return manifests.pool("refused", "default", "none", "refused", **spec)


POOLS = {
    "minimum over maximum": (
        bad_pool(scaling={"mode": "QueueDepth", "minReplicas": 3, "maxReplicas": 2}),
        "minReplicas may not be larger than",
    ),
    "no maximum in mode QueueDepth": (
        bad_pool(scaling={"mode": "QueueDepth"}),
        "maxReplicas is required in mode QueueDepth",
    ),
    "a time zone that does not exist": (
        bad_pool(
            scaling={
                "mode": "QueueDepth",
                "maxReplicas": 2,
                "schedule": [{"start": "08:00", "end": "18:00", "timeZone": "Mars/Olympus", "minReplicas": 2}],
            }
        ),
        "spec.scaling.schedule[0].timeZone",
    ),
    "an hour that does not exist": (
        bad_pool(
            scaling={
                "mode": "QueueDepth",
                "maxReplicas": 2,
                "schedule": [{"start": "8am", "end": "18:00", "minReplicas": 2}],
            }
        ),
        "must be a time of day",
    ),
    "a field that does not exist": (bad_pool(replicaz=2), 'unknown field "replicaz"'),
    "a duration that is none": (bad_pool(drain={"timeout": "soon"}), "spec.drain.timeout"),
    "a class without a size": (bad_pool(requestClass={"name": "any"}), "maxTotalTokens"),
    "a prompt larger than the request": (
        bad_pool(requestClass={"name": "any", "maxTotalTokens": 100, "maxPromptTokens": 101}),
        "maxPromptTokens may not be larger than",
    ),
    "a spillover that is none": (bad_pool(spillover="Hard"), "spec.spillover"),
    "a negative weight": (bad_pool(weight=-1), "spec.weight"),
    "no name for the model": (bad_pool(model=""), "spec.model"),
}

PROFILES = {
    "a malformed slice name": (manifests.profile("refused", IMAGE, slice_profile="1g10gb"), "spec.slice.profiles"),
    "a slice twice": (
        manifests.profile("refused", IMAGE, slice={"profiles": ["1g.10gb", "1g.10gb"]}),
        "slice.profiles names a slice twice",
    ),
    "a field and its flag": (
        manifests.profile(
            "refused", IMAGE, engine=manifests.engine(IMAGE, "--kv_cache_dtype=fp8_e5m2") | {"kvCacheDtype": "fp8"}
        ),
        "engine.kvCacheDtype is set and engine.extraArgs holds --kv-cache-dtype too",
    ),
    "two slices at once": (
        manifests.profile("refused", IMAGE, engine=manifests.engine(IMAGE, "-tp=2")),
        "holds a flag that Workslice sets itself",
    ),
    "an owned flag": (
        manifests.profile("refused", IMAGE, engine=manifests.engine(IMAGE, "--port=9000")),
        "holds a flag that Workslice sets itself",
    ),
    "an owned flag with underscores": (
        manifests.profile("refused", IMAGE, engine=manifests.engine(IMAGE, "--max_model_len=9000")),
        "holds a flag that Workslice sets itself",
    ),
    "an owned variable": (
        manifests.profile("refused", IMAGE, engine={"env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]}),
        "env may not set",
    ),
    "a model source that is none": (manifests.profile("refused", IMAGE, model_path="../../etc?"), "spec.model.source"),
    "a cache for a model that is there already": (
        manifests.profile("refused", IMAGE, model={"source": "pvc://models/tiny", "cache": {"claim": "cache"}}),
        "model.cache is for hub models",
    ),
    "a window of no layers": (
        manifests.profile(
            "refused",
            IMAGE,
            model={
                "source": "pvc://models/tiny",
                "shape": {
                    **dict.fromkeys(("parameters", "layers", "hiddenSize", "intermediateSize", "kvHeads"), 1),
                    **dict.fromkeys(("headSize", "vocabulary", "slidingWindow"), 1),
                },
            },
        ),
        "model.shape.slidingWindow and model.shape.slidingLayers go together",
    ),
    "a warm-up of too many beginnings": (
        manifests.profile("refused", IMAGE, engine={"warmup": {"prefixes": [{"text": "x"}] * 5}}),
        "spec.engine.warmup.prefixes",
    ),
    "a list of no namespaces": (
        manifests.profile("refused", IMAGE, allowedNamespaces=[]),
        "allowedNamespaces is empty: name the namespaces that may use the profile",
    ),
    "memory in a unit of disks": (
        manifests.profile("refused", IMAGE, memory={"host": "3GB"}),
        "3GB is no Kubernetes quantity: write a number of at least 0 with k, M, G, T",
    ),
    "less memory than none": (manifests.profile("refused", IMAGE, memory={"host": -3}), "write a number of at least 0"),
    "a CPU limit in words": (
        manifests.profile("refused", IMAGE, cpu={"limit": "two"}),
        "two is no Kubernetes quantity",
    ),
    "a misspelt field": (manifests.profile("refused", IMAGE, memry={"host": "1Gi"}), 'unknown field "memry"'),
}


@pytest.mark.parametrize(("manifest", "message"), POOLS.values(), ids=POOLS)
def test_a_pool_that_cannot_work_is_refused(installation: Installation, manifest: dict[str, Any], message: str) -> None:
    assert message in refusal(installation, manifest)
    assert installation.cluster.find("wspool", "refused") is None


@pytest.mark.parametrize(("manifest", "message"), PROFILES.values(), ids=PROFILES)
def test_a_profile_that_cannot_work_is_refused(
    installation: Installation, manifest: dict[str, Any], message: str
) -> None:
    assert message in refusal(installation, manifest)
    assert installation.cluster.find("wsprof", "refused") is None


@pytest.mark.parametrize(("manifest", "message"), [*POOLS.values(), *PROFILES.values()], ids=[*POOLS, *PROFILES])
def test_render_finds_the_same_without_an_api_server(manifest: dict[str, Any], message: str) -> None:
    found = "\n".join(resource_faults(manifest))
    assert message.replace('field "', 'field "spec.') in found


def test_the_model_of_a_pool_cannot_be_changed(pools: Installation) -> None:
    with pytest.raises(ClusterError, match="model"):
        pools.cluster.patch("wspool", "long", "demo", {"spec": {"model": "other"}})
