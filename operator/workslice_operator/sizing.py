"""How much a model needs of a slice before any pod starts: weights, overhead, KV cache, and whether it fits. Pure.

The account is the engine's own: it may use a share of the slice's memory, from which weights, activations of a test run and CUDA graphs
go, and what remains is the KV cache. The constants were fitted to public start-up logs (operator/tests/startup_logs.py says which, and
which were held out). It holds for models whose layers attend to the whole context or to a window of it; state-space layers cache other
things.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from workslice_operator.engine_version import parse_version
from workslice_operator.kv_cache_blocks import BLOCK_TOKENS, CacheBlocks, cache_blocks

GIB: Final = 2**30

Dtype = Literal["bfloat16", "float16", "float32"]
Quantization = Literal["none", "fp8", "int8", "awq", "gptq", "mxfp4"]
KvCacheDtype = Literal["auto", "fp8"]

_DTYPE_BYTES: Final[dict[Dtype, int]] = {"bfloat16": 2, "float16": 2, "float32": 4}
_QUANTIZED_BYTES: Final[dict[Quantization, float]] = {
    "fp8": 1.0,
    "int8": 1.0,
    "awq": 0.53,
    "gptq": 0.53,
    "mxfp4": 0.575,
}
"""Bytes for each quantized weight, scales, zero points and the padding of kernels included."""

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
_STEPS_IN_FLIGHT: Final[tuple[tuple[tuple[int, int, int], int], ...]] = (((0, 26, 0), 2), ((0, 0, 0), 1))
"""Steps whose tokens a layer with a window keeps beside it, by version: of two that overlap the older is settled only when it is over."""
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
    sliding_window: int | None = None
    """Tokens that some layers attend to; None: all attend to the whole context."""
    sliding_layers: int = 0
    """How many those are."""
    unquantized_parameters: int | None = None
    """Weights that a quantized checkpoint leaves as they are; None: embeddings and the output layer."""


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
    kv_bytes: int
    """The KV cache, in whole blocks; 0 when nothing remains for it."""
    kv_tokens: int
    """Tokens that it holds; of layers with a window, in requests of max_tokens."""
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
    cache = _cache(shape, settings)
    budget = memory if settings.kv_cache_bytes is not None else int(memory * settings.gpu_utilization)
    left = budget - weights - overhead
    kv = left if settings.kv_cache_bytes is None else min(left, settings.kv_cache_bytes)
    blocks = max(0, kv) // cache.bytes
    needed_blocks = cache.needed(settings.max_tokens)
    needed = needed_blocks * cache.bytes
    exact_fits = settings.kv_cache_bytes is None or settings.kv_cache_bytes <= left
    certain = kv if settings.kv_cache_bytes is not None else kv * _CERTAIN
    fits = exact_fits and certain >= needed
    concurrency = blocks / needed_blocks
    tokens = int(concurrency * settings.max_tokens) if shape.sliding_layers else blocks * BLOCK_TOKENS
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
            f"about {tokens:,} tokens of KV cache, {concurrency:.1f} requests of {settings.max_tokens:,} tokens at once "
            f"({parts}, KV cache {_gib(kv)} of {_gib(budget)})"
        )
    return Sizing(weights, overhead, blocks * cache.bytes, tokens, concurrency, fits, sentence)


def weight_bytes(shape: ModelShape, settings: EngineSettings) -> int:
    """Weights on the slice."""
    whole = _DTYPE_BYTES[settings.dtype]
    if settings.quantization == "none":
        return shape.parameters * whole
    embeddings = shape.vocabulary * shape.hidden_size * (1 if shape.tied_embeddings else 2)
    left = min(shape.parameters, shape.unquantized_parameters or embeddings)
    return int(left * whole + (shape.parameters - left) * _QUANTIZED_BYTES[settings.quantization])


def cache_bytes(shape: ModelShape, settings: EngineSettings, tokens: int) -> int:
    """The size of a KV cache that holds so many tokens; of layers with a window, in requests of max_tokens."""
    if not shape.sliding_layers:
        return tokens * shape.layers * _token_bytes(shape, settings)
    cache = _cache(shape, settings)
    return int(tokens / settings.max_tokens * cache.needed(settings.max_tokens) * cache.bytes)


def _cache(shape: ModelShape, settings: EngineSettings) -> CacheBlocks:
    version = parse_version(settings.version)
    steps = next(count for since, count in _STEPS_IN_FLIGHT if version >= since)
    kept = (shape.sliding_window or 1) - 1 + steps * settings.batched_tokens
    return cache_blocks(shape.layers, shape.sliding_layers, kept, _token_bytes(shape, settings))


def _token_bytes(shape: ModelShape, settings: EngineSettings) -> int:
    """What is cached of one token in each layer."""
    width = 1 if settings.kv_cache_dtype == "fp8" else _DTYPE_BYTES[settings.dtype]
    return (shape.latent_size or 2 * shape.kv_heads * shape.head_size) * width


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
    cache = _cache(shape, settings)
    certain = size(shape, settings, memory).kv_bytes * (1.0 if settings.kv_cache_bytes is not None else _CERTAIN)
    longest = cache.longest(int(certain) // cache.bytes, settings.max_tokens)
    for step in (1024, 256, BLOCK_TOKENS):
        context = longest // step * step
        shorter = replace(settings, max_tokens=context)
        if 0 < context < settings.max_tokens and size(shape, shorter, memory).fits:
            return Change(shorter, None, f"lower workspace.maxTokens to {context:,}")
    return None


def _gib(size_in_bytes: float) -> str:
    return f"{size_in_bytes / GIB:.1f} GiB"
