"""WorkspaceProfile: a cluster-scoped class of workspaces (what one replica is made of), as a StorageClass is of volumes."""

from typing import Annotated, Final, Literal

from pydantic import Field

from workslice_api.base import Condition, KubeModel, ObjectMeta
from workslice_api.quantity import Duration, Quantity
from workslice_api.readable_rules import rule_for_pattern
from workslice_api.slices import SLICE_PATTERN

DEFAULT_ENGINE_IMAGE: Final = "docker.io/vllm/vllm-openai:v0.33.0"
DEFAULT_ENGINE_VERSION: Final = "0.33.0"

SOURCE_PATTERN: Final = r"^(pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[A-Za-z0-9._/-]*)?|/[A-Za-z0-9._/-]+|[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+)$"

OWNED_FLAGS: Final[tuple[str, ...]] = (
    "--model",
    "--config",
    "--host",
    "--port",
    "--uds",
    "--api-key",
    "--served-model-name",
    "--revision",
    "--max-model-len",
    "--max-num-seqs",
    "--max-num-batched-tokens",
    "--gpu-memory-utilization",
    "--device-memory-utilization",
    "--kv-cache-memory-bytes",
    "--num-gpu-blocks-override",
    "--long-prefill-token-threshold",
    "--scheduling-policy",
    "--shutdown-timeout",
    "--root-path",
    "--ssl-keyfile",
    "--ssl-certfile",
    "--headless",
    "--tensor-parallel-size",
    "--pipeline-parallel-size",
    "--data-parallel-size",
    "--enable-sleep-mode",
)
"""vLLM flags that Workslice sets itself (from fields of the profile and pool) or that contradict one slice per replica."""

OWNED_ENV: Final[tuple[str, ...]] = (
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "VLLM_SERVER_DEV_MODE",
    "VLLM_API_KEY",
)
"""Environment variables that would break slice isolation, open the engine's admin API or lock the router out."""


def _flag_rule() -> dict[str, str]:
    owned = ", ".join(f"'{name}'" for name in OWNED_FLAGS)
    # vLLM's parser takes _ for - and any unambiguous abbreviation (--max-model-l), so a prefix of an owned flag is refused too.
    flag = "a.split('=')[0].replace('_', '-')"
    return {
        "rule": f"self.all(a, !(a.startsWith('--') && [{owned}].exists(f, f.startsWith({flag}))) && !a.matches('^-(tp|pp|dp)'))",
        "message": "extraArgs holds a flag that Workslice sets itself (model, port, context, sequences, memory, scheduling, "
        "shutdown, parallelism): use the profile's fields memory, workspace and engine instead",
    }


class ModelSource(KubeModel):
    """Where the weights come from."""

    source: Annotated[
        str,
        Field(
            min_length=1,
            max_length=512,
            pattern=SOURCE_PATTERN,
            json_schema_extra=rule_for_pattern(
                "model.source must be a hub id (org/name), pvc://claim/path or an absolute path in the engine image"
            ),
        ),
    ]
    """Hub id (org/name), `pvc://claim/path` (a PersistentVolumeClaim in the pool's namespace) or an absolute path in the engine
    image. Rolls: replaces the engine pods."""
    revision: Annotated[str | None, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9._/-]+$")] = None
    """Branch, tag or commit of a hub model. Rolls: replaces the engine pods."""


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
        Field(min_length=1, max_length=1, json_schema_extra={"x-kubernetes-list-type": "atomic"}),
    ]
    """The MIG profile (1g.10gb, 2g.20gb, 1g.10gb+me ...) or `whole` for an undivided GPU. Rolls: replaces the engine pods."""
    products: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = []
    """GPU products to run on (values of the node label nvidia.com/gpu.product); empty means any. Rolls: replaces the engine pods."""


class MemorySpec(KubeModel):
    """Memory limits of one replica."""

    host: Quantity = "8Gi"
    """Host memory of the engine pod: request and limit, so that a replica can never take a neighbour's. Rolls: replaces the
    engine pods."""
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

    request: Quantity = "1"
    """CPU request of the engine pod. Rolls: replaces the engine pods."""
    limit: Quantity | None = None
    """CPU limit; unset (recommended) lets an engine use idle cores, since throttling shows as latency. Rolls: replaces the engine
    pods."""


class WorkspaceSpec(KubeModel):
    """What one workspace may hold."""

    max_tokens: Annotated[int, Field(ge=16, le=10_000_000)] = 8192
    """Context of a workspace in tokens, prompt and answer together (--max-model-len). Rolls: replaces the engine pods."""
    max_concurrent: Annotated[int, Field(ge=1, le=4096)] = 64
    """Workspaces that one replica runs at the same time (--max-num-seqs). Rolls: replaces the engine pods."""


class EnvVar(KubeModel):
    """An environment variable of the engine."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=4096)] = ""
    """Its value; secrets belong in template.modelSecretRef of the pool."""


class EngineSpec(KubeModel):
    """The vLLM engine and its policy."""

    image: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^\S+$")] = DEFAULT_ENGINE_IMAGE
    """Image whose entrypoint is `vllm serve`. Rolls: replaces the engine pods."""
    version: Annotated[str, Field(max_length=32, pattern=r"^[0-9]+\.[0-9]+(\.[0-9]+)?([.+-][A-Za-z0-9.]+)?$")] = (
        DEFAULT_ENGINE_VERSION
    )
    """vLLM version inside the image; decides which flags exist. Rolls: replaces the engine pods."""
    batched_tokens: Annotated[int, Field(ge=16, le=1_048_576)] = 2048
    """Tokens per engine step (--max-num-batched-tokens). Rolls: replaces the engine pods."""
    long_prefill_token_threshold: Annotated[int, Field(ge=0, le=1_048_576)] = 512
    """Prompt tokens that one long request may take of a step, so that short ones run beside it; 0 is off. Rolls: replaces the
    engine pods."""
    extra_args: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=1024)]],
        Field(
            max_length=64,
            json_schema_extra={"x-kubernetes-list-type": "atomic", "x-kubernetes-validations": [_flag_rule()]},
        ),
    ] = []
    """Further arguments for vLLM. Flags that Workslice sets itself are refused. Rolls: replaces the engine pods."""
    env: Annotated[
        list[EnvVar],
        Field(
            max_length=64,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-validations": [
                    {
                        "rule": "self.all(e, !(e.name in [" + ", ".join(f"'{name}'" for name in OWNED_ENV) + "]))",
                        "message": "env may not set "
                        + ", ".join(OWNED_ENV)
                        + ": the device plugin and Workslice own them",
                    }
                ],
            },
        ),
    ] = []
    """Environment variables of the engine. Rolls: replaces the engine pods."""
    startup_timeout: Duration = "10m"
    """How long a replica may take from being scheduled until it answers /health. Rolls: replaces the engine pods."""


class WorkspaceProfileSpec(KubeModel):
    """What a replica of this profile is: model, slice, memory limits, engine policy."""

    model: ModelSource
    """Where the weights come from."""
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


PROFILE_RULES: Final[list[dict[str, str]]] = [
    {
        "rule": "self.spec.engine.batchedTokens >= self.spec.workspace.maxConcurrent",
        "message": "engine.batchedTokens may not be smaller than workspace.maxConcurrent: every running request takes a token of each step",
    }
]


class WorkspaceProfileStatus(KubeModel):
    """What the operator knows of a profile."""

    observed_generation: int = 0
    """Generation that this status speaks of."""
    pools: Annotated[list[Annotated[str, Field(max_length=127)]], Field(max_length=256)] = []
    """Pools that use this profile, as namespace/name (the first 256)."""
    pool_count: int = 0
    """How many pools use this profile."""
    conditions: Annotated[
        list[Condition],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []
    """Accepted says whether the cluster has slices of this kind."""


class WorkspaceProfile(KubeModel):
    """A class of workspaces: model, GPU slice, memory limits and engine policy, shared by pools of any namespace."""

    api_version: Literal["workslice.dev/v1alpha1"] = "workslice.dev/v1alpha1"
    kind: Literal["WorkspaceProfile"] = "WorkspaceProfile"
    metadata: ObjectMeta
    spec: WorkspaceProfileSpec
    """What a replica of this profile is."""
    status: WorkspaceProfileStatus = WorkspaceProfileStatus()
    """What the operator knows of it."""
