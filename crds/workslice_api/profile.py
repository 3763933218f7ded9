"""WorkspaceProfile: a cluster-scoped class of workspaces (what one replica is made of), as a StorageClass is of volumes."""

from typing import Annotated, Final, Literal

from pydantic import Field

from workslice_api.base import Condition, KubeModel, Name, ObjectMeta
from workslice_api.engine_spec import FLAG_OF_ARGUMENT, EngineSpec
from workslice_api.model_spec import MODEL_RULES, FoundModel, ModelSource
from workslice_api.quantity import Quantity
from workslice_api.readable_rules import rule_for_pattern
from workslice_api.slices import SLICE_PATTERN


class SliceSpec(KubeModel):
    """The piece of a GPU that one replica owns."""

    profiles: Annotated[
        list[
            Annotated[
                str,
                Field(
                    max_length=24,
                    pattern=SLICE_PATTERN,
                    json_schema_extra=rule_for_pattern(
                        "must be a MIG profile as nvidia-smi prints it, such as 1g.10gb, 2g.20gb or 1g.10gb+me, or 'whole'"
                    ),
                ),
            ]
        ],
        Field(
            min_length=1,
            max_length=8,
            json_schema_extra={
                "x-kubernetes-list-type": "atomic",
                "x-kubernetes-validations": [
                    {
                        "rule": "self.all(a, self.exists_one(b, b == a))",
                        "message": "slice.profiles names a slice twice: it is an order of preference, so name each once",
                    }
                ],
            },
        ),
    ]
    """MIG profiles (1g.10gb, 2g.20gb, 1g.10gb+me ...) or `whole` for an undivided GPU, in order of preference: a pool takes the first that
    has room for the model and that the cluster has, for all its replicas, and keeps it until its pods are replaced for another reason.
    Rolls: replaces the engine pods."""
    products: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = []
    """GPU products to run on (values of the node label nvidia.com/gpu.product); empty means any. Rolls: replaces the engine pods."""


class MemorySpec(KubeModel):
    """Memory limits of one replica."""

    host: Quantity | None = None
    """Host memory of the engine pod: request and limit, so that a replica can never take a neighbour's. Unset, it follows from the slice:
    8Gi for 1g, 12Gi for 2g, 16Gi for 3g and 4g, 32Gi for more. Rolls: replaces the engine pods."""
    kv_cache: Quantity | None = None
    """Exact size of the KV cache on the slice; unset lets the engine profile it within gpuUtilization. Rolls: replaces the engine
    pods."""
    gpu_utilization: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            json_schema_extra={
                "x-kubernetes-validations": [
                    {"rule": "self >= 0.05 && self <= 0.99", "message": "gpuUtilization must lie between 0.05 and 0.99"}
                ]
            },
        ),
    ] = 0.92
    """Share of the slice's memory that the engine may use. Rolls: replaces the engine pods."""


class CpuSpec(KubeModel):
    """CPU of one replica."""

    request: Quantity | None = None
    """CPU request of the engine pod. Unset, it follows from the slice: 2 for 1g and 2g, 4 for 3g and 4g, 8 for more, never above the
    limit. Rolls: replaces the engine pods."""
    limit: Quantity | None = None
    """CPU limit; unset (recommended) lets an engine use idle cores, since throttling shows as latency. Rolls: replaces the engine
    pods."""


class WorkspaceSpec(KubeModel):
    """What one workspace may hold."""

    max_tokens: Annotated[int, Field(ge=16, le=10_000_000)] = 8192
    """Context of a workspace in tokens, prompt and answer together (--max-model-len). Rolls: replaces the engine pods."""
    max_concurrent: Annotated[int, Field(ge=1, le=4096)] = 64
    """Workspaces that one replica runs at the same time (--max-num-seqs). Rolls: replaces the engine pods."""


class WorkspaceProfileSpec(KubeModel):
    """What a replica of this profile is: model, slice, memory limits, engine policy."""

    model: Annotated[ModelSource, Field(json_schema_extra={"x-kubernetes-validations": MODEL_RULES})]
    """Where the weights come from, and what is known of them."""
    slice: SliceSpec
    """The piece of a GPU that one replica owns."""
    memory: MemorySpec = MemorySpec()
    """Memory limits of one replica."""
    cpu: CpuSpec = CpuSpec()
    """CPU of one replica."""
    workspace: WorkspaceSpec = WorkspaceSpec()
    """What one workspace may hold."""
    engine: EngineSpec = EngineSpec()
    """The vLLM engine and its policy."""
    allowed_namespaces: Annotated[
        list[Name] | None,
        Field(
            max_length=256,
            json_schema_extra={
                "x-kubernetes-list-type": "set",
                "x-kubernetes-validations": [
                    {
                        "rule": "self.size() > 0",
                        "message": "allowedNamespaces is empty: name the namespaces that may use the profile, or leave the field out, "
                        "which allows every namespace",
                    }
                ],
            },
        ),
    ] = None
    """Namespaces whose pools may use the profile, and so its slices; unset, every namespace may. An empty list is refused. When a
    namespace is taken out, what its pools run already is left alone, and keeps its slices until the pool is deleted. Live: takes effect
    without touching engines."""

    def allows(self, namespace: str) -> bool:
        """Whether pools of the namespace may use the profile."""
        return self.allowed_namespaces is None or namespace in self.allowed_namespaces


FLAGS_WITH_FIELD: Final[dict[str, tuple[str, str]]] = {
    "--dtype": ("model.dtype", "has(self.spec.model.dtype)"),
    "--quantization": ("model.quantization", "has(self.spec.model.quantization)"),
    "--kv-cache-dtype": ("engine.kvCacheDtype", "self.spec.engine.kvCacheDtype != 'auto'"),
}
"""Flags with a field that knows the usual values; extraArgs may give others while the field is unset. With the rule for "is set"."""


def _once_rule(flag: str, field: str, is_set: str) -> dict[str, str]:
    return {
        "rule": f"!({is_set}) || !self.spec.engine.extraArgs.exists(a, a.startsWith('--') && '{flag}'.startsWith({FLAG_OF_ARGUMENT}))",
        "message": f"{field} is set and engine.extraArgs holds {flag} too: keep one of them",
    }


PROFILE_RULES: Final[list[dict[str, str]]] = [
    {
        "rule": "self.spec.engine.batchedTokens >= self.spec.workspace.maxConcurrent",
        "message": "engine.batchedTokens may not be smaller than workspace.maxConcurrent: every running request takes a token of each step",
    },
    *(_once_rule(flag, field, is_set) for flag, (field, is_set) in FLAGS_WITH_FIELD.items()),
]


class SliceFit(KubeModel):
    """What the model has of one slice."""

    profile: Annotated[str, Field(max_length=64)]
    """The slice, as in spec.slice.profiles."""
    product: Annotated[str, Field(max_length=253)] = ""
    """The GPU product that the numbers are for: of several the one with the least memory on which the model fits."""
    fits: bool | None = None
    """Whether one request of workspace.maxTokens can run; absent when unknown."""
    source: Literal["estimated", "measured"] = "estimated"
    """Where the numbers come from: model.shape, or a running engine."""
    usable_bytes: int | None = None
    """Memory of the slice that an engine can use."""
    weight_bytes: int | None = None
    """Weights on the slice."""
    overhead_bytes: int | None = None
    """What the engine needs beside weights and KV cache: activations of its largest step, CUDA graphs, CUDA."""
    kv_bytes: int | None = None
    """The KV cache."""
    kv_tokens: int | None = None
    """Tokens that the KV cache holds."""
    max_concurrent: int | None = None
    """Requests of workspace.maxTokens that the KV cache holds at once; it holds more shorter ones."""
    estimated_kv_tokens: int | None = None
    """What the estimate was, beside a measurement."""
    measured_for: Annotated[str, Field(max_length=64)] = ""
    """Digest of the settings that a measurement holds for."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """The numbers in words."""


class WorkspaceProfileStatus(KubeModel):
    """What the operator knows of a profile."""

    observed_generation: int = 0
    """Generation that this status speaks of."""
    pools: Annotated[list[Annotated[str, Field(max_length=127)]], Field(max_length=256)] = []
    """Pools that use this profile, as namespace/name (the first 256)."""
    pool_count: int = 0
    """How many pools use this profile."""
    slices: Annotated[
        list[SliceFit],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["profile"]},
        ),
    ] = []
    """What the model has of each slice in spec.slice.profiles."""
    model: FoundModel | None = None
    """What is known of the model since it was fetched into model.cache."""
    slice: Annotated[str, Field(max_length=64)] = ""
    """The slice that a new pool would take: the first that has room for the model, by spec.model.shape or as measured, and that the
    cluster has."""
    start_seconds: int | None = None
    """How long replicas take from getting a slice to being ready: the median of what the pools' status.lastStart say, renewed when it is
    off by more than a fifth. Routers tell it to those who find no replica ready and no room to wait."""
    conditions: Annotated[
        list[Condition],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []
    """Accepted says whether the cluster has slices of this kind, Fits whether the model has room on them."""


class WorkspaceProfile(KubeModel):
    """A class of workspaces: model, GPU slice, memory limits and engine policy, shared by pools of any namespace. While the annotation
    workslice.dev/paused is there, the operator writes nothing for the profile and its pools.
    """

    api_version: Literal["workslice.dev/v1alpha1"] = "workslice.dev/v1alpha1"
    kind: Literal["WorkspaceProfile"] = "WorkspaceProfile"
    metadata: ObjectMeta
    spec: WorkspaceProfileSpec
    """What a replica of this profile is."""
    status: WorkspaceProfileStatus = WorkspaceProfileStatus()
    """What the operator knows of it."""
