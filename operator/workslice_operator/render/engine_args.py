"""The command line of a replica. The image's entrypoint is `vllm serve`, so these are arguments only: the model, then flags.

Everything that decides memory, admission or draining is spelled out: vLLM's own defaults depend on the hardware it sees, and a MIG
slice makes it see the wrong one.
"""

from workslice_api.names import ENGINE_PORT
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_api.quantity import quantity_bytes
from workslice_operator.engine_version import knows_flag, quantization_method
from workslice_operator.model_source import locate_model
from workslice_operator.render.termination import termination


def engine_args(pool: WorkspacePool, profile: WorkspaceProfile) -> list[str]:
    """Arguments of the engine container; the profile's extraArgs come last."""
    spec = profile.spec
    location = locate_model(spec.model)
    flags: list[tuple[str, str]] = [
        ("--host", "0.0.0.0"),
        ("--port", str(ENGINE_PORT)),
        ("--served-model-name", pool.spec.model),
        ("--max-model-len", str(spec.workspace.max_tokens)),
        ("--max-num-seqs", str(spec.workspace.max_concurrent)),
        ("--max-num-batched-tokens", str(spec.engine.batched_tokens)),
        ("--gpu-memory-utilization", str(spec.memory.gpu_utilization)),
        ("--shutdown-timeout", str(termination(pool.spec.drain.timeout, spec.engine.version).shutdown_timeout)),
        # vLLM refuses to start when the threshold is above the context; there both mean "no request is long".
        (
            "--long-prefill-token-threshold",
            str(min(spec.engine.long_prefill_token_threshold, spec.workspace.max_tokens)),
        ),
        ("--scheduling-policy", "priority"),
    ]
    if spec.memory.kv_cache is not None:
        flags.append(("--kv-cache-memory-bytes", str(quantity_bytes(spec.memory.kv_cache))))
    if spec.model.revision is not None and not location.cached:
        flags.append(("--revision", spec.model.revision))
    if spec.model.dtype is not None:
        flags.append(("--dtype", spec.model.dtype))
    if spec.model.quantization is not None:
        flags.append(("--quantization", quantization_method(spec.engine.version, spec.model.quantization)))
    if spec.engine.kv_cache_dtype != "auto":
        flags.append(("--kv-cache-dtype", spec.engine.kv_cache_dtype))
    known = [part for flag, value in flags if knows_flag(spec.engine.version, flag) for part in (flag, value)]
    return [location.argument, *known, *spec.engine.extra_args]
