"""What of a profile decides how much memory its engine needs, in the terms of `sizing`. Pure."""

import hashlib
import json
from typing import Final

from workslice_api.model_spec import ModelShape as StatedShape
from workslice_api.profile import WorkspaceProfile
from workslice_api.quantity import quantity_bytes
from workslice_operator.config_shape import is_of
from workslice_operator.engine_version import parse_version
from workslice_operator.sizing import EngineSettings, ModelShape

_CHANGING_MEMORY: Final = (
    "--dtype",
    "--quantization",
    "--kv-cache-dtype",
    "--cpu-offload",
    "--weight-offload",
    "--speculative",
    "--enable-lora",
    "--hf-overrides",
    "--compilation-config",
)
"""Flags (or how they begin) after which the estimate does not hold."""
_CHANGING_WINDOWS: Final = (
    "--block-size",
    "--disable-hybrid-kv-cache-manager",
    "--disable-sliding-window",
    "--kv-events-config",
    "--kv-offloading",
    "--kv-transfer-config",
    "--num-gpu-blocks-override",
)
"""The same for models with layers that attend to a window."""
_WINDOWS_KNOWN_SINCE: Final = (0, 11, 0)
"""Engines before this version are not known to keep no more than the window of such layers."""
_TOLD_IN_TOKENS_SINCE: Final = (0, 26, 0)
"""Engines since this version tell the tokens that their KV cache holds, whatever its layers attend to."""


def known_shape(profile: WorkspaceProfile) -> StatedShape | None:
    """The shape that the profile states, else the one that was found when the model was fetched."""
    found = profile.status.model
    if profile.spec.model.shape is not None or found is None:
        return profile.spec.model.shape
    return found.shape if is_of(found, profile.spec.model) else None


def model_shape(profile: WorkspaceProfile) -> ModelShape | None:
    """The known shape in the terms of the account; None also where the account does not hold for the engine's version."""
    stated = known_shape(profile)
    if stated is None or windows_unknown(profile):
        return None
    numbers = stated.model_dump(exclude={"quantization", "sliding_layers"})
    return ModelShape(**numbers, sliding_layers=stated.sliding_layers or 0)


def cache_told_in_blocks(profile: WorkspaceProfile) -> bool:
    """Whether the engine may tell no more of its KV cache than blocks of which each holds tokens for some of the layers only."""
    return _has_windows(known_shape(profile)) and _version(profile) < _TOLD_IN_TOKENS_SINCE


def windows_unknown(profile: WorkspaceProfile) -> bool:
    """Whether the model has layers with a window, and the engine is too old to be known to cache less for them."""
    return _has_windows(known_shape(profile)) and _version(profile) < _WINDOWS_KNOWN_SINCE


def _has_windows(shape: StatedShape | None) -> bool:
    return shape is not None and shape.sliding_layers is not None


def _version(profile: WorkspaceProfile) -> tuple[int, int, int]:
    return parse_version(profile.spec.engine.version)


def engine_settings(profile: WorkspaceProfile) -> EngineSettings:
    """What the engine is told that its memory depends on."""
    spec = profile.spec
    shape = known_shape(profile)
    stored = shape.quantization if shape else None
    return EngineSettings(
        version=spec.engine.version,
        max_tokens=spec.workspace.max_tokens,
        max_concurrent=spec.workspace.max_concurrent,
        batched_tokens=spec.engine.batched_tokens,
        gpu_utilization=spec.memory.gpu_utilization,
        kv_cache_bytes=None if spec.memory.kv_cache is None else quantity_bytes(spec.memory.kv_cache),
        dtype=spec.model.dtype or "bfloat16",
        quantization=spec.model.quantization or stored or "none",
        kv_cache_dtype=spec.engine.kv_cache_dtype,
        cuda_graphs="--enforce-eager" not in _flags(profile),
    )


def unknown_argument(profile: WorkspaceProfile) -> str:
    """The first argument that changes memory in a way that is not accounted for; empty when there is none."""
    windows = _CHANGING_WINDOWS if _has_windows(known_shape(profile)) else ()
    for flag in _flags(profile):
        known = any(flag.startswith(one) or one.startswith(flag) for one in (*_CHANGING_MEMORY, *windows))
        if known or flag.startswith("-q"):
            return flag
    return ""


def settings_digest(profile: WorkspaceProfile, slice_: str) -> str:
    """Changes whenever an engine on that slice might have another KV cache: a measurement holds for one digest."""
    spec = profile.spec
    decisive = [
        spec.model.model_dump(exclude={"shape", "cache"}),
        spec.memory.model_dump(exclude={"host"}),
        spec.workspace.model_dump(),
        spec.engine.model_dump(exclude={"startup_timeout", "long_prefill_token_threshold", "warmup"}),
        sorted(spec.slice.products),
        slice_,
    ]
    return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]


def _flags(profile: WorkspaceProfile) -> list[str]:
    given = (one.partition("=")[0].partition(" ")[0] for one in profile.spec.engine.extra_args)
    return [one.replace("_", "-") for one in given if one.startswith(("--", "-q"))]
