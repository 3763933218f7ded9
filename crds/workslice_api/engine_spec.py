"""The engine part of a WorkspaceProfile: its image, its settings, what Workslice keeps to itself, and its warm-up."""

from typing import Annotated, Final, Literal

from pydantic import Field

from workslice_api.base import KubeModel
from workslice_api.quantity import Duration

DEFAULT_ENGINE_IMAGE: Final = "docker.io/vllm/vllm-openai:v0.33.0"
DEFAULT_ENGINE_VERSION: Final = "0.33.0"

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

FLAG_OF_ARGUMENT: Final = "a.split('=')[0].replace('_', '-')"
"""What an argument sets: vLLM's parser takes _ for -, and any unambiguous abbreviation (--max-model-l), so prefixes count too."""


def _flag_rule() -> dict[str, str]:
    owned = ", ".join(f"'{name}'" for name in OWNED_FLAGS)
    return {
        "rule": f"self.all(a, !(a.startsWith('--') && [{owned}].exists(f, f.startsWith({FLAG_OF_ARGUMENT}))) "
        "&& !a.matches('^-(tp|pp|dp)'))",
        "message": "extraArgs holds a flag that Workslice sets itself (model, port, context, sequences, memory, scheduling, "
        "shutdown, parallelism): use the profile's fields memory, workspace and engine instead",
    }


class EnvVar(KubeModel):
    """An environment variable of the engine."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=4096)] = ""
    """Its value; secrets belong in template.modelSecretRef of the pool."""


class WarmupPrefix(KubeModel):
    """A beginning that many prompts share."""

    text: Annotated[str, Field(min_length=1, max_length=8192)]
    """The text, exactly as requests have it. It stands in the pod's manifest, so it is no place for secrets."""
    kind: Literal["System", "Prompt"] = "System"
    """System: the system message of chat requests, put into the model's chat template. Prompt: the beginning of the prompts of completions
    requests, as it is."""


class Warmup(KubeModel):
    """What a replica has answered before it is Ready."""

    prefixes: Annotated[
        list[WarmupPrefix], Field(max_length=4, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = []
    """Beginnings of prompts that the replica has in its prefix cache when its first request comes. Rolls: replaces the engine pods."""


class EngineSpec(KubeModel):
    """The vLLM engine and its policy."""

    image: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^\S+$")] = DEFAULT_ENGINE_IMAGE
    """Image whose entrypoint is `vllm serve`, with /bin/sh, grep and sleep in it, and python3 where warmup is set. Rolls:
    replaces the engine pods."""
    version: Annotated[str, Field(max_length=32, pattern=r"^[0-9]+\.[0-9]+(\.[0-9]+)?([.+-][A-Za-z0-9.]+)?$")] = (
        DEFAULT_ENGINE_VERSION
    )
    """vLLM version inside the image; decides which flags exist. Rolls: replaces the engine pods."""
    batched_tokens: Annotated[int, Field(ge=16, le=1_048_576)] = 2048
    """Tokens per engine step (--max-num-batched-tokens). Rolls: replaces the engine pods."""
    long_prefill_token_threshold: Annotated[int, Field(ge=0, le=1_048_576)] = 512
    """Prompt tokens that one long request may take of a step, so that short ones run beside it; 0 is off. Rolls: replaces the
    engine pods."""
    kv_cache_dtype: Literal["auto", "fp8"] = "auto"
    """Type of the KV cache (--kv-cache-dtype): auto is that of the model, fp8 halves the cache. Rolls: replaces the engine pods."""
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
    """How long a replica may take from being scheduled until it answers /health, and the requests of warmup. Rolls: replaces the engine
    pods."""
    warmup: Warmup | None = None
    """Lets each replica answer a first request before it is Ready, so that no caller waits for what an engine does only once; `{}` is
    enough. For models that generate text. Rolls: replaces the engine pods."""
