"""The shape of a model that was fetched, from its config.json and from how many elements its weights have. Pure.

Only what the estimate holds for: kinds of models that are known to attend to the whole context in every layer. Of all others nothing is
said, for a wrong refusal is worse than none.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import ValidationError

from workslice_api.model_spec import FoundModel, ModelShape, ModelSource
from workslice_operator.model_source import DEFAULT_REVISION

_Quantization = Literal["fp8", "int8", "awq", "gptq"]
_KINDS: Final = frozenset(
    (
        *("arcee", "cohere", "deepseek_v2", "deepseek_v3", "exaone", "gemma", "glm4", "granite", "granitemoe"),
        *("internlm2", "internlm3", "llama", "mistral", "mixtral", "nemotron", "olmo", "olmo2", "olmoe", "phi"),
        *("phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "stablelm", "starcoder2"),
    )
)
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
    if kind not in _KINDS:
        raise UnknownShape(f"models of the kind {kind} are not estimated")
    if any(one != "full_attention" for one in config.get("layer_types", ())):
        raise UnknownShape("some of the model's layers do not attend to the whole context")
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        raise UnknownShape("the model's layers attend to a sliding window")
    if missing := [name for name in _NEEDED if not isinstance(config.get(name), int)]:
        raise UnknownShape(f"the model's config.json has no {' and no '.join(missing)}")
    quantization, parameters = _weights(config.get("quantization_config"), elements)
    heads = config["num_attention_heads"]
    try:
        return ModelShape(
            parameters=parameters,
            layers=config["num_hidden_layers"],
            hidden_size=config["hidden_size"],
            intermediate_size=config["intermediate_size"],
            kv_heads=config.get("num_key_value_heads") or heads,
            latent_size=_latent_size(config),
            head_size=config.get("head_dim") or config["hidden_size"] // max(1, heads),
            vocabulary=config["vocab_size"],
            tied_embeddings=bool(config.get("tie_word_embeddings")),
            quantization=quantization,
        )
    except ValidationError as error:
        raise UnknownShape(f"the model's config.json has a strange {error.errors()[0]['loc'][-1]}") from error


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
    if method in _FOUR_BIT and quantized.get("bits") == 4:
        return _FOUR_BIT[method], floats + 8 * elements.get("I32", 0)  # eight weights in each word
    raise UnknownShape(f"weights that are quantized by {method} are not estimated")
