"""The shape of a model that was fetched, from its config.json and from how many elements its weights have. Pure.

Only what the estimate holds for: kinds of models whose layers are known to attend to the whole context or to a window of it, and to cache
equally much of a token. Of all others nothing is said, for a wrong refusal is worse than none.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import ValidationError

from workslice_api.model_spec import FoundModel, ModelShape, ModelSource
from workslice_operator.model_source import DEFAULT_REVISION

_Quantization = Literal["fp8", "int8", "awq", "gptq", "mxfp4"]
_KINDS: Final = frozenset(
    (
        *("arcee", "cohere", "deepseek_v2", "deepseek_v3", "exaone", "gemma", "glm4", "granite", "granitemoe"),
        *("internlm2", "internlm3", "llama", "mistral", "mixtral", "nemotron", "olmo", "olmo2", "olmoe", "phi"),
        *("phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "stablelm", "starcoder2"),
        *("gemma2", "gemma3_text", "gpt_oss", "olmo3"),
    )
)
_SLIDING: Final = frozenset(("gemma2", "gemma3_text", "gpt_oss", "olmo3"))
"""Kinds of which some layers always have a window."""
_TIED: Final = frozenset(("cohere", "gemma", "gemma2", "gemma3_text", "starcoder2"))
"""Kinds whose output layer shares its weights with the embeddings where the file does not say otherwise."""
_ALL_SLIDING: Final = frozenset(("mistral", "mixtral", "phi3", "starcoder2"))
"""Kinds whose layers all have the window, if there is one."""
_STATE_SPACE: Final = frozenset(
    (
        *(
            "bamba",
            "falcon_h1",
            "falcon_mamba",
            "granitemoehybrid",
            "jamba",
            "kimi_linear",
            "lfm2",
            "lfm2_moe",
            "mamba",
        ),
        *("mamba2", "nemotron_h", "plamo2", "qwen3_next", "zamba2"),
    )
)
_MXFP4_SCALED: Final = 32
"""Weights that share one scale, of a byte; two weights take another."""
_NEEDED: Final = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
_FLOATS: Final = ("BF16", "F16", "F32")
_FOUR_BIT: Final[Mapping[Any, _Quantization]] = {"awq": "awq", "gptq": "gptq"}

_LONGEST_MESSAGE: Final = 512
_LONGEST_REASON: Final = 200


class UnknownShape(Exception):
    """Why the shape cannot be told, for people."""


def found_model(text: str) -> FoundModel | None:
    """What the container that fetches a model has said of it; None when it is not that."""
    try:
        known = json.loads(text)
        model = FoundModel(source=str(known["source"]), revision=str(known["revision"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    try:
        shape = _shape(known.get("config"), known.get("elements"))
    except UnknownShape as why:
        return model.model_copy(update={"message": _writable(str(why))})
    # Anybody may have written the file: no form that it can have may end what goes on with the pool.
    except Exception as error:
        why_not = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
        message = f"the model's config.json or weights have an entry of a form that is not known ({why_not})"
        return model.model_copy(update={"message": _writable(message)})
    return model.model_copy(update={"shape": shape})


def _writable(message: str) -> str:
    """As it may stand in a status: JSON can hold halves of characters, which have no UTF-8."""
    return message.encode(errors="replace").decode()[:_LONGEST_MESSAGE]


def is_of(found: FoundModel | None, model: ModelSource) -> bool:
    """Whether it is this very model."""
    return found is not None and (found.source, found.revision) == (model.source, model.revision or DEFAULT_REVISION)


def _shape(config: Any, elements: Any) -> ModelShape:
    if not isinstance(config, Mapping) or not isinstance(elements, Mapping):
        raise UnknownShape("the model has no config.json or no safetensors")
    kind = config.get("model_type")
    if kind in _STATE_SPACE:
        raise UnknownShape(
            f"models of the kind {kind} have layers that cache a state, whose share of the cache depends on what kernels the engine chooses"
        )
    if kind not in _KINDS:
        raise UnknownShape(f"models of the kind {kind} are not estimated")
    if missing := [name for name in _NEEDED if not isinstance(config.get(name), int)]:
        raise UnknownShape(f"the model's config.json has no {' and no '.join(missing)}")
    quantization, parameters = _weights(config.get("quantization_config"), elements)
    heads, latent, sliding = config["num_attention_heads"], _latent_size(config), _sliding_layers(config)
    if sliding > config["num_hidden_layers"]:
        raise UnknownShape("more of the model's layers attend to its window than it has")
    if sliding and latent is not None:
        raise UnknownShape("models with both latent attention and a window are not estimated")
    try:
        return ModelShape(
            parameters=parameters,
            layers=config["num_hidden_layers"],
            hidden_size=config["hidden_size"],
            intermediate_size=config["intermediate_size"],
            kv_heads=config.get("num_key_value_heads") or heads,
            latent_size=latent,
            head_size=config.get("head_dim") or config["hidden_size"] // max(1, heads),
            vocabulary=config["vocab_size"],
            tied_embeddings=bool(config.get("tie_word_embeddings", kind in _TIED)),
            sliding_window=config["sliding_window"] if sliding else None,
            sliding_layers=sliding or None,
            quantization=quantization,
            unquantized_parameters=sum(elements.get(name, 0) for name in _FLOATS) if quantization == "mxfp4" else None,
        )
    except ValidationError as error:
        raise UnknownShape(f"the model's config.json has a strange {error.errors()[0]['loc'][-1]}") from error


def _sliding_layers(config: Mapping[str, Any]) -> int:
    """How many layers attend to a window only."""
    kind, layers, types = config["model_type"], config["num_hidden_layers"], config.get("layer_types")
    if not config.get("sliding_window") or not config.get("use_sliding_window", True):
        if kind in _SLIDING or set(types or ()) - {"full_attention"}:
            raise UnknownShape(
                "some of the model's layers do not attend to the whole context, and its config.json does not say to what"
            )
        return 0
    if isinstance(types, Mapping):
        if set(types) - {"full_attention", "sliding_attention"}:
            raise UnknownShape("some of the model's layers attend neither to the whole context nor to its window")
        return int(types.get("sliding_attention", 0))
    if types is not None:
        raise UnknownShape("how many of the model's layers attend to a window was not noted when it was fetched")
    if kind in _ALL_SLIDING:
        return int(layers)
    if kind in ("gemma2", "gpt_oss"):
        return (int(layers) + 1) // 2
    if kind == "gemma3_text":
        return int(layers) - int(layers) // int(config.get("sliding_window_pattern", 6))
    raise UnknownShape("which of the model's layers attend to its sliding window is not known")


def _latent_size(config: Mapping[str, Any]) -> int | None:
    """What latent attention caches of a token in each layer; None where keys and values are cached."""
    rank = config.get("kv_lora_rank")
    return int(rank) + int(config.get("qk_rope_head_dim", 0)) if isinstance(rank, int) else None


def _weights(quantized: Any, elements: Mapping[str, Any]) -> tuple[_Quantization | None, int]:
    """How the weights are quantized, and how many there are."""
    floats = sum(elements.get(name, 0) for name in _FLOATS)
    if not isinstance(quantized, Mapping):
        return None, floats
    method, form = quantized.get("quant_method"), quantized.get("format")
    if method == "fp8" or (method, form) == ("compressed-tensors", "float-quantized"):
        return "fp8", floats + sum(count for name, count in elements.items() if name.startswith("F8"))
    if (method, form) == ("compressed-tensors", "int-quantized"):
        return "int8", floats + elements.get("I8", 0)
    if method == "mxfp4":
        # In bytes: two weights in each, and the scales.
        return "mxfp4", floats + elements.get("U8", 0) * _MXFP4_SCALED // (_MXFP4_SCALED // 2 + 1)
    if method in _FOUR_BIT and quantized.get("bits") == 4:
        return _FOUR_BIT[method], floats + 8 * elements.get("I32", 0)  # eight weights in each word
    raise UnknownShape(f"weights that are quantized by {method} are not estimated")
