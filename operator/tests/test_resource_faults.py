from typing import Any

import pytest
from pool_objects import raw_pool, raw_profile

from workslice_operator.resource_faults import resource_faults


def profile(**spec: Any) -> dict[str, Any]:
    raw = raw_profile()
    return raw | {"spec": raw["spec"] | spec}


MODEL = {"source": "/models/tiny"}
NUMBERS = ("parameters", "layers", "hiddenSize", "intermediateSize", "kvHeads", "headSize", "vocabulary")
SHAPE: dict[str, Any] = dict.fromkeys(NUMBERS, 1)
SCALED = {"mode": "QueueDepth", "minReplicas": 3, "maxReplicas": 2}
FAULTS: list[tuple[dict[str, Any], str]] = [
    (raw_pool(scaling={"mode": "QueueDepth"}), "spec.scaling: scaling.maxReplicas is required in mode QueueDepth"),
    (raw_pool(scaling=SCALED), "spec.scaling: scaling.minReplicas may not be larger"),
    (raw_pool(replicass=2), 'unknown field "spec.replicass"'),
    (raw_pool(requestClass={"name": "a", "maxTotalTokens": 9, "sloo": {}}), 'unknown field "spec.requestClass.sloo"'),
    (raw_pool(replicas=-1), "spec.replicas: Input should be greater than or equal to 0"),
    (raw_pool(replicas="two"), "spec.replicas: Input should be a valid integer"),
    (raw_pool(profileRef={}), "spec.profileRef.name: Field required"),
    (raw_pool(drain={"timeout": "soon"}), "spec.drain.timeout: must be a duration with a unit"),
    (raw_pool(drain={"timeout": 5}), "spec.drain.timeout: Input should be a valid string"),
    (raw_pool(name="1st"), "metadata.name of a WorkspacePool must be a DNS label"),
    (raw_pool(degrade={"fallbackModel": "tiny"}), "degrade.fallbackModel must be another model than spec.model"),
    (raw_pool(template={"labels": {"workslice.dev/x": "y"}}), "spec.template.labels: labels with the prefixes"),
    (
        profile(engine={"extraArgs": ["--max_model-l=5"]}),
        "spec.engine.extraArgs: extraArgs holds a flag that Workslice",
    ),
    (profile(engine={"env": [{"name": "VLLM_API_KEY"}]}), "spec.engine.env: env may not set"),
    (profile(engine={"env": [{"nam": "A"}]}), 'unknown field "spec.engine.env[0].nam"'),
    (profile(memory={"host": "8GB"}), "spec.memory.host: 8GB is no Kubernetes quantity"),
    (profile(memory={"gpuUtilization": 1.0}), "spec.memory.gpuUtilization: gpuUtilization must lie between"),
    (profile(slice={"profiles": ["huge"]}), "spec.slice.profiles[0]: must be a MIG profile"),
    (profile(slice={"profiles": ["1g.10gb", "1g.10gb"]}), "spec.slice.profiles: slice.profiles names a slice twice"),
    (
        profile(model=MODEL | {"quantization": "fp8", "shape": SHAPE | {"quantization": "awq"}}),
        "spec.model: model.quantization quantizes weights that are not",
    ),
    (
        profile(model=MODEL | {"shape": SHAPE | {"slidingWindow": 512}}),
        "spec.model: model.shape.slidingWindow and model.shape.slidingLayers go together",
    ),
    (
        profile(model=MODEL | {"shape": SHAPE | {"slidingWindow": 512, "slidingLayers": 9999}}),
        "spec.model: model.shape.slidingLayers may not exceed model.shape.layers",
    ),
    (
        profile(model=MODEL | {"shape": SHAPE | {"slidingWindow": 5, "slidingLayers": 1, "latentSize": 5}}),
        "spec.model: model.shape has both latentSize and slidingLayers",
    ),
    (
        profile(model=MODEL | {"dtype": "float16"}, engine={"extraArgs": ["--dtype", "half"]}),
        "model.dtype is set and engine.extraArgs holds --dtype too",
    ),
    (
        profile(model=MODEL | {"quantization": "fp8"}, engine={"extraArgs": ["--quant=awq"]}),
        "model.quantization is set and engine.extraArgs holds --quantization too",
    ),
    (
        profile(engine={"kvCacheDtype": "fp8", "extraArgs": ["--kv_cache_dtype=fp8_e5m2"]}),
        "engine.kvCacheDtype is set and engine.extraArgs holds --kv-cache-dtype too",
    ),
    (profile(engine={"extraArgs": ["-tp=2"]}), "spec.engine.extraArgs: extraArgs holds a flag that Workslice"),
    (profile(model={"source": "?"}), "spec.model.source: model.source must be a hub id"),
    (profile() | {"apiVersion": "workslice.dev/v1"}, "apiVersion: must be workslice.dev/v1alpha1"),
]


@pytest.mark.parametrize(("raw", "said"), FAULTS, ids=[said for _, said in FAULTS])
def test_a_fault_is_named_with_its_field_in_the_words_of_the_crd(raw: dict[str, Any], said: str) -> None:
    assert any(fault.startswith(said) for fault in resource_faults(raw)), resource_faults(raw)


@pytest.mark.parametrize(
    "raw",
    [
        raw_pool(template={"volumes": [{"name": "x", "emptyDir": {}}], "affinity": {"podAffinity": {}}}),
        raw_pool(scaling={"mode": "QueueDepth", "maxReplicas": 2}),
        profile(model=MODEL | {"shape": SHAPE | {"quantization": "awq"}}, slice={"profiles": ["1g.10gb", "whole"]}),
        profile(model=MODEL | {"shape": SHAPE | {"slidingWindow": 512, "slidingLayers": 1}}),
        profile(model=MODEL, engine={"extraArgs": ["--dtype=half", "--kv-cache-dtype=fp8_e5m2", "-q", "awq_marlin"]}),
        profile(memory={"host": 8589934592, "gpuUtilization": 0.5}, engine={"extraArgs": ["--enforce-eager"]}),
    ],
)
def test_what_the_api_server_takes_has_no_fault(raw: dict[str, Any]) -> None:
    assert resource_faults(raw) == []


def test_every_fault_of_an_object_is_told_at_once() -> None:
    assert len(resource_faults(raw_pool(replicas=-1, weight=-1, color="red"))) == 3
