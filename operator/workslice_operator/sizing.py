"""How much a model needs of a slice before any pod starts: weights, overhead, KV cache, and whether it fits. Pure.

The account is the engine's own: it may use a share of the slice's memory, from which weights, activations of a test run and CUDA graphs
go, and what remains is the KV cache. The constants were fitted to public start-up logs (operator/tests/startup_logs.py says which, and
which were held out). It holds for models whose layers all attend to the whole context; sliding windows and state-space layers cache less
than it says.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from workslice_operator.engine_version import parse_version

GIB: Final = 2**30
BLOCK_TOKENS: Final = 16
"""The KV cache is handed out in blocks of this many tokens."""

Dtype = Literal["bfloat16", "float16", "float32"]
Quantization = Literal["none", "fp8", "int8", "awq", "gptq"]
KvCacheDtype = Literal["auto", "fp8"]

_DTYPE_BYTES: Final[dict[Dtype, int]] = {"bfloat16": 2, "float16": 2, "float32": 4}
_QUANTIZED_BYTES: Final[dict[Quantization, float]] = {"fp8": 1.0, "int8": 1.0, "awq": 0.53, "gptq": 0.53}
"""Bytes for each quantized weight, scales and zero points included; embeddings and the output layer stay as they are."""

_NON_TORCH: Final = 0.25 * GIB
"""What CUDA and its libraries hold beside the tensors: logs tell 0.05 to 0.3 GiB."""
_CUDA_GRAPHS: Final = 0.5 * GIB
_CUDA_GRAPHS_COUNTED_SINCE: Final = (0, 21, 0)
"""From this version the engine sets the memory of its CUDA graphs aside before it sizes the KV cache."""
_FORWARD_TENSORS: Final = 3.0
"""Tensors as wide as hidden and intermediate size together that a feed-forward layer holds at once, for each token of a step."""
_HIDDEN_STATES: Final = 1.3
"""Tensors of hidden size that stay beside the sampler, for each token of a step."""
_LOGIT_BYTES: Final[tuple[tuple[tuple[int, int, int], float], ...]] = (((0, 15, 0), 28.2), ((0, 0, 0), 38.2))
"""Bytes that sampling takes for each word of the vocabulary and each sequence, by version: logits, their copy in float32 and a sort. An
engine that samples with FlashInfer needs a quarter; which one does cannot be told from outside."""
_CERTAIN: Final = 0.95
"""Share of the estimated KV cache that must suffice, for an estimate is some percent wrong."""


@dataclass(frozen=True)
class ModelShape:
    """The numbers of a model's config.json that memory depends on."""

    parameters: int
    """All weights, experts included."""
    layers: int
    hidden_size: int
    intermediate_size: int
    kv_heads: int
    head_size: int
    vocabulary: int
    tied_embeddings: bool = False
    """Whether the output layer shares its weights with the embeddings."""
    latent_size: int | None = None
    """What latent attention (MLA) caches of a token in each layer, in place of keys and values; None: the model has none."""


@dataclass(frozen=True)
class EngineSettings:
    """The settings of an engine that memory depends on."""

    version: str
    max_tokens: int
    """Context of a request in tokens."""
    max_concurrent: int
    batched_tokens: int
    gpu_utilization: float = 0.92
    kv_cache_bytes: int | None = None
    """Exact size of the KV cache; None lets the engine take what remains within gpu_utilization."""
    dtype: Dtype = "bfloat16"
    quantization: Quantization = "none"
    kv_cache_dtype: KvCacheDtype = "auto"
    cuda_graphs: bool = True
    """False: --enforce-eager."""


@dataclass(frozen=True)
class Sizing:
    """What a model needs of a slice, in bytes, and what it gets there."""

    weights: int
    overhead: int
    kv_bytes_per_token: int
    kv_tokens: int
    """Tokens that the KV cache holds, in whole blocks; 0 when nothing remains for it."""
    concurrency: float
    """Requests of max_tokens that the KV cache holds at once."""
    fits: bool
    sentence: str
    """The numbers in words, for people."""


@dataclass(frozen=True)
class Change:
    """A change that makes a model fit."""

    settings: EngineSettings
    slice: str | None
    """Another slice, by name; None when the slice stays."""
    sentence: str


def size(shape: ModelShape, settings: EngineSettings, memory: int) -> Sizing:
    """What the model needs of a slice with so many usable bytes."""
    weights = weight_bytes(shape, settings)
    overhead = overhead_bytes(shape, settings)
    per_token = kv_bytes_per_token(shape, settings)
    budget = memory if settings.kv_cache_bytes is not None else int(memory * settings.gpu_utilization)
    left = budget - weights - overhead
    kv = left if settings.kv_cache_bytes is None else min(left, settings.kv_cache_bytes)
    blocks = max(0, kv) // (BLOCK_TOKENS * per_token)
    needed_blocks = math.ceil(settings.max_tokens / BLOCK_TOKENS)
    needed = needed_blocks * BLOCK_TOKENS * per_token
    exact_fits = settings.kv_cache_bytes is None or settings.kv_cache_bytes <= left
    certain = kv if settings.kv_cache_bytes is not None else kv * _CERTAIN
    fits = exact_fits and certain >= needed
    concurrency = blocks / needed_blocks
    parts = f"weights {_gib(weights)}, overhead {_gib(overhead)}"
    if left <= 0:
        sentence = f"{parts} exceed the {_gib(budget)} that the engine may use"
    elif not exact_fits:
        sentence = f"{parts} leave {_gib(left)} of {_gib(budget)}, less than memory.kvCache"
    elif not fits:
        sentence = (
            f"one request of {settings.max_tokens:,} tokens needs {_gib(needed)} of KV cache, "
            f"and about {_gib(kv)} of {_gib(budget)} remain ({parts})"
        )
    else:
        sentence = (
            f"about {blocks * BLOCK_TOKENS:,} tokens of KV cache, {concurrency:.1f} requests of {settings.max_tokens:,} tokens at once "
            f"({parts}, KV cache {_gib(kv)} of {_gib(budget)})"
        )
    return Sizing(weights, overhead, per_token, blocks * BLOCK_TOKENS, concurrency, fits, sentence)


def weight_bytes(shape: ModelShape, settings: EngineSettings) -> int:
    """Weights on the slice."""
    whole = _DTYPE_BYTES[settings.dtype]
    if settings.quantization == "none":
        return shape.parameters * whole
    embeddings = min(shape.parameters, shape.vocabulary * shape.hidden_size * (1 if shape.tied_embeddings else 2))
    return int(embeddings * whole + (shape.parameters - embeddings) * _QUANTIZED_BYTES[settings.quantization])


def kv_bytes_per_token(shape: ModelShape, settings: EngineSettings) -> int:
    """What is cached of one token in all layers."""
    width = 1 if settings.kv_cache_dtype == "fp8" else _DTYPE_BYTES[settings.dtype]
    keys_and_values = 2 * shape.kv_heads * shape.head_size
    return shape.layers * (shape.latent_size or keys_and_values) * width


def overhead_bytes(shape: ModelShape, settings: EngineSettings) -> int:
    """What goes beside weights and KV cache: the largest step's activations, CUDA graphs and CUDA itself."""
    version = parse_version(settings.version)
    width = _DTYPE_BYTES[settings.dtype]
    forward = settings.batched_tokens * width * _FORWARD_TENSORS * (shape.hidden_size + shape.intermediate_size)
    logit = next(size for since, size in _LOGIT_BYTES if version >= since)
    sampling = (
        settings.max_concurrent * shape.vocabulary * logit
        + settings.batched_tokens * width * _HIDDEN_STATES * shape.hidden_size
    )
    graphs = _CUDA_GRAPHS if settings.cuda_graphs and version >= _CUDA_GRAPHS_COUNTED_SINCE else 0.0
    return int(_NON_TORCH + max(forward, sampling) + graphs)


def nearest_change(
    shape: ModelShape, settings: EngineSettings, memory: int, slices: Iterable[tuple[str, int]] = ()
) -> Change | None:
    """The smallest change after which the model fits; None when it fits already or nothing named here helps.

    In this order: a context of at least half the length, the KV cache in fp8, the smallest of `slices` (name, usable bytes) that is
    enough, any shorter context.
    """
    if size(shape, settings, memory).fits:
        return None
    shorter = _shorter_context(shape, settings, memory)
    if shorter and shorter.settings.max_tokens * 2 >= settings.max_tokens:
        return shorter
    fp8 = replace(settings, kv_cache_dtype="fp8")
    if settings.kv_cache_dtype != "fp8" and size(shape, fp8, memory).fits:
        return Change(fp8, None, "set engine.kvCacheDtype to fp8, which halves the KV cache")
    for name, larger in sorted(slices, key=lambda one: (one[1], one[0])):
        if larger > memory and size(shape, settings, larger).fits:
            return Change(settings, name, f"use a {name} slice ({_gib(larger)})")
    return shorter


def _shorter_context(shape: ModelShape, settings: EngineSettings, memory: int) -> Change | None:
    # Nothing but the KV cache depends on the context, so the longest that fits follows from what is there.
    holds = size(shape, settings, memory).kv_tokens * (1.0 if settings.kv_cache_bytes is not None else _CERTAIN)
    for step in (1024, 256, BLOCK_TOKENS):
        context = int(holds) // step * step
        shorter = replace(settings, max_tokens=context)
        if 0 < context < settings.max_tokens and size(shape, shorter, memory).fits:
            return Change(shorter, None, f"lower workspace.maxTokens to {context:,}")
    return None


def _gib(size_in_bytes: float) -> str:
    return f"{size_in_bytes / GIB:.1f} GiB"
