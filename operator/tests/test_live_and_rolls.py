"""Holds what the API promises about each field: "Live" ones never touch the pod template, the others always do."""

from collections.abc import Iterator
from typing import Any

import pytest
from pool_facts import make_pool, make_profile
from pydantic import BaseModel

from workslice_api.pool import WorkspacePoolSpec
from workslice_api.profile import WorkspaceProfileSpec
from workslice_operator.render.pod_template import pod_template

POOL_CHANGES: dict[str, Any] = {
    "profileRef.name": "other",
    "model": "other",
    "aliases": ["other"],
    "requestClass.name": "other",
    "requestClass.maxTotalTokens": 99,
    "requestClass.maxPromptTokens": 9,
    "requestClass.priority": 5,
    "requestClass.slo": {"timeToFirstToken": "9s", "timePerOutputToken": "9ms"},
    "spillover": "Strict",
    "requestClass.timeouts": {"firstByte": "9s", "idle": "9s"},
    "requestClass.keepAlive": "9s",
    "weight": 7,
    "replicas": 3,
    "scaling.mode": "QueueDepth",
    "scaling.minReplicas": 2,
    "scaling.maxReplicas": 4,
    "scaling.targetPerReplica": 3,
    "scaling.headroom": 1,
    "scaling.schedule": [{"start": "08:00", "end": "18:00", "minReplicas": 2}],
    "scaling.scaleToZeroAfter": "30m",
    "scaling.scaleDownWindow": "9s",
    "queue.maxDepth": 3,
    "queue.maxInFlightPerReplica": 3,
    "queue.maxWait": "9s",
    "queue.coldStartMaxWait": "9s",
    "degrade": {"maxTokens": 9, "fallbackModel": "other"},
    "drain.timeout": "9s",
    "template.tolerations": [{"key": "x"}],
    "template.nodeSelector": {"a": "b"},
    "template.affinity": {"podAntiAffinity": {}},
    "template.priorityClassName": "x",
    "template.schedulerName": "x",
    "template.runtimeClassName": "x",
    "template.imagePullSecrets": [{"name": "x"}],
    "template.volumes": [{"name": "x", "emptyDir": {}}],
    "template.volumeMounts": [{"name": "x", "mountPath": "/x"}],
    "template.modelSecretRef": {"name": "x"},
    "template.serviceAccountName": "x",
    "template.labels": {"a": "b"},
    "template.annotations": {"a": "b"},
}
PROFILE_CHANGES: dict[str, Any] = {
    "model.source": "org/other",
    "model.revision": "v2",
    "model.dtype": "float16",
    "model.quantization": "fp8",
    "model.cache": {"claim": "models"},
    "model.shape": {
        "parameters": 10**9,
        "layers": 16,
        "hiddenSize": 2048,
        "intermediateSize": 8192,
        "kvHeads": 8,
        "headSize": 64,
        "vocabulary": 1000,
        "quantization": "fp8",
    },
    "slice.profiles": ["2g.20gb"],
    "slice.products": ["A"],
    "memory.host": "9Gi",
    "memory.kvCache": "1Gi",
    "memory.gpuUtilization": 0.5,
    "cpu.request": "3",
    "cpu.limit": "5",
    "workspace.maxTokens": 4096,
    "workspace.maxConcurrent": 3,
    "engine.image": "x",
    "engine.version": "0.34.0",
    "engine.batchedTokens": 4096,
    "engine.longPrefillTokenThreshold": 0,
    "engine.kvCacheDtype": "fp8",
    "engine.extraArgs": ["--x"],
    "engine.env": [{"name": "X"}],
    "engine.startupTimeout": "9m",
    "engine.warmup": {"prefixes": [{"text": "x"}]},
    "allowedNamespaces": ["shop"],
}


def documented_fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Path and word (Live, Rolls, Immutable) of every field; the fields of a part without a word of its own are looked into."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        documentation = " ".join((field.description or "").split())
        words = [word for word in ("Live", "Rolls", "Immutable") if f"{word}:" in documentation]
        part = field.annotation
        if words:
            (word,) = words
            yield path, word
        elif isinstance(part, type) and issubclass(part, BaseModel):
            yield from documented_fields(part, f"{path}.")
        else:
            pytest.fail(f"{path} says neither Live nor Rolls nor Immutable")


def nested(path: str, value: Any) -> dict[str, Any]:
    for part in reversed(path.split(".")):
        value = {part: value}
    return value


def merge(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = merge(base[key], value) if both else value
    return merged


POOL_BASE = {"requestClass": {"name": "short", "maxTotalTokens": 2048}}
PROFILE_BASE = {"model": {"source": "org/tiny"}, "slice": {"profiles": ["1g.10gb"]}}
POOL_FIELDS = dict(documented_fields(WorkspacePoolSpec))
PROFILE_FIELDS = dict(documented_fields(WorkspaceProfileSpec))


def test_every_field_of_the_api_is_tried() -> None:
    assert set(POOL_FIELDS) == set(POOL_CHANGES)
    assert set(PROFILE_FIELDS) == set(PROFILE_CHANGES)


@pytest.mark.parametrize("path", sorted(POOL_FIELDS))
def test_a_field_of_a_pool_does_to_the_engines_what_its_documentation_says(path: str) -> None:
    change = nested(path, POOL_CHANGES[path])
    changed = pod_template(make_pool(**merge(POOL_BASE, change)), make_profile())
    assert (changed != pod_template(make_pool(), make_profile())) is (POOL_FIELDS[path] != "Live")


@pytest.mark.parametrize("path", sorted(PROFILE_FIELDS))
def test_a_field_of_a_profile_does_to_the_engines_what_its_documentation_says(path: str) -> None:
    change = nested(path, PROFILE_CHANGES[path])
    changed = pod_template(make_pool(), make_profile(**merge(PROFILE_BASE, change)))
    assert (changed != pod_template(make_pool(), make_profile(**PROFILE_BASE))) is (PROFILE_FIELDS[path] == "Rolls")
