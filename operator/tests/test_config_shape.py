import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workslice_api.model_spec import ModelSource
from workslice_operator.config_shape import found_model, is_of

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
    "tie_word_embeddings": False,
}


def found(config: Any, **elements: int) -> Any:
    known = {"source": "org/m", "revision": "main", "config": config, "elements": elements}
    result = found_model(json.dumps(known))
    assert result is not None
    return result


def test_the_shape_of_a_plain_model_is_read() -> None:
    shape = found(LLAMA, BF16=8_030_261_248).shape
    assert shape.to_wire() == {
        "parameters": 8_030_261_248,
        "layers": 32,
        "hiddenSize": 4096,
        "intermediateSize": 14336,
        "kvHeads": 8,
        "headSize": 128,
        "vocabulary": 128_256,
        "tiedEmbeddings": False,
    }


def test_heads_have_the_size_and_number_that_the_file_says_and_else_what_follows() -> None:
    said = found({**LLAMA, "head_dim": 64}, BF16=1).shape
    without = found({**LLAMA, "num_key_value_heads": None}, BF16=1).shape
    assert (said.head_size, without.kv_heads, without.head_size) == (64, 32, 128)


def test_latent_attention_is_told_by_its_rank() -> None:
    latent = {"model_type": "deepseek_v2", "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert found({**LLAMA, **latent}, BF16=1).shape.latent_size == 576
    assert found(LLAMA, BF16=1).shape.latent_size is None


WINDOW: dict[str, Any] = {"sliding_window": 512}


@pytest.mark.parametrize(
    ("change", "layers"),
    [
        ({"model_type": "mistral"} | WINDOW, 32),
        ({"model_type": "gemma2"} | WINDOW, 16),
        ({"model_type": "gemma2", "num_hidden_layers": 33} | WINDOW, 17),
        ({"model_type": "gpt_oss"} | WINDOW, 16),
        ({"model_type": "gemma3_text"} | WINDOW, 27),
        ({"model_type": "gemma3_text", "sliding_window_pattern": 4} | WINDOW, 24),
        ({"model_type": "olmo3", "layer_types": {"sliding_attention": 24, "full_attention": 8}} | WINDOW, 24),
        ({"model_type": "mistral", "sliding_window": None}, None),
        ({"model_type": "qwen2", "use_sliding_window": False} | WINDOW, None),
        ({"model_type": "qwen3", "layer_types": {"full_attention": 32}} | WINDOW, None),
        ({"layer_types": {"full_attention": 32}}, None),
        ({"layer_types": ["full_attention"]}, None),
    ],
)
def test_layers_with_a_window_are_counted(change: dict[str, Any], layers: int | None) -> None:
    shape = found({**LLAMA, **change}, BF16=1).shape
    assert (shape.sliding_layers, shape.sliding_window) == (layers, 512 if layers else None)


def test_a_checkpoint_in_mxfp4_says_how_much_of_it_is_quantized() -> None:
    config = {**LLAMA, "model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4"}} | WINDOW
    shape = found(config, BF16=100, U8=17).shape
    assert (shape.quantization, shape.parameters, shape.unquantized_parameters) == ("mxfp4", 132, 100)


def test_weights_are_shared_where_the_kind_does_so_by_itself() -> None:
    silent = {name: value for name, value in LLAMA.items() if name != "tie_word_embeddings"}
    gemma = {**silent, "model_type": "gemma3_text"} | WINDOW
    assert found(gemma, BF16=1).shape.tied_embeddings is True
    assert found({**gemma, "tie_word_embeddings": False}, BF16=1).shape.tied_embeddings is False
    assert found(silent, BF16=1).shape.tied_embeddings is False


@pytest.mark.parametrize(
    ("quantized", "elements", "quantization", "parameters"),
    [
        ({"quant_method": "fp8"}, {"F8_E4M3": 100, "BF16": 10}, "fp8", 110),
        ({"quant_method": "compressed-tensors", "format": "float-quantized"}, {"F8_E4M3": 100}, "fp8", 100),
        ({"quant_method": "compressed-tensors", "format": "int-quantized"}, {"I8": 100, "BF16": 1}, "int8", 101),
        ({"quant_method": "awq", "bits": 4}, {"I32": 10, "F16": 3}, "awq", 83),
        ({"quant_method": "gptq", "bits": 4}, {"I32": 10, "F16": 3}, "gptq", 83),
    ],
)
def test_weights_that_are_quantized_are_counted_one_by_one(
    quantized: Any, elements: dict[str, int], quantization: str, parameters: int
) -> None:
    shape = found({**LLAMA, "quantization_config": quantized}, **elements).shape
    assert (shape.quantization, shape.parameters) == (quantization, parameters)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"model_type": "nemotron_h"}, "models of the kind nemotron_h have layers that cache a state"),
        ({"model_type": "gemma4"}, "models of the kind gemma4 are not estimated"),
        ({"model_type": "gemma2"}, "do not attend to the whole context"),
        ({"layer_types": {"full_attention": 1, "sliding_attention": 31}}, "do not attend to the whole context"),
        (
            {"layer_types": {"full_attention": 1, "other": 31}} | WINDOW,
            "neither to the whole context nor to its window",
        ),
        ({"layer_types": ["full_attention", "sliding_attention"]} | WINDOW, "was not noted when it was fetched"),
        ({"model_type": "qwen2"} | WINDOW, "which of the model's layers attend to its sliding window is not known"),
        (
            {"layer_types": {"sliding_attention": 33}} | WINDOW,
            "more of the model's layers attend to its window than it has",
        ),
        ({"model_type": "gemma3_text", "sliding_window_pattern": -1} | WINDOW, "than it has"),
        (
            {"kv_lora_rank": 512, "layer_types": {"full_attention": 31, "sliding_attention": 1}} | WINDOW,
            "both latent attention and a window",
        ),
        ({"vocab_size": None, "hidden_size": "x"}, "has no hidden_size and no vocab_size"),
        ({"num_hidden_layers": 0}, "has a strange layers"),
        ({"num_attention_heads": 0, "num_key_value_heads": None}, "has a strange kv"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "quantized by bitsandbytes are not estimated"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "quantized by gptq are not estimated"),
    ],
    ids=[
        *(
            "states",
            "unknown kind",
            "no window",
            "types without a window",
            "other types",
            "types of an earlier version",
        ),
        *("which layers", "more windows than layers", "negative pattern", "windows of latent attention", "lacking"),
        *("zero", "no heads", "unknown method", "other bits"),
    ],
)
def test_of_what_the_estimate_does_not_hold_for_nothing_is_said_but_why(change: dict[str, Any], why: str) -> None:
    model = found({**LLAMA, **change}, BF16=100, I32=100)
    assert model.shape is None
    assert why in model.message


def test_a_model_without_config_or_weights_has_no_shape() -> None:
    model = found_model('{"source": "org/m", "revision": "main"}')
    assert model is not None
    assert model.message == "the model has no config.json or no safetensors"


@pytest.mark.parametrize("text", ["", "OOMKilled", "[]", '{"config": {}}'])
def test_what_is_not_said_by_the_container_that_fetches_is_no_model(text: str) -> None:
    assert found_model(text) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
ENTRIES = (
    *LLAMA,
    "layer_types",
    "sliding_window",
    "sliding_window_pattern",
    "head_dim",
    "kv_lora_rank",
    "qk_rope_head_dim",
)
QUANTIZED = st.fixed_dictionaries(
    {"quant_method": st.sampled_from(["fp8", "awq", "compressed-tensors"]) | JSON},
    optional={"bits": st.just(4) | JSON, "format": st.just("int-quantized") | JSON},
)
STRANGE = st.fixed_dictionaries(
    {},
    optional={
        "source": JSON,
        "revision": JSON,
        "config": JSON
        | st.builds(
            lambda strange, quantized: LLAMA | strange | {"quantization_config": quantized},
            st.dictionaries(st.sampled_from(ENTRIES), JSON, max_size=2),
            QUANTIZED | JSON,
        ),
        "elements": JSON | st.dictionaries(st.sampled_from(["BF16", "F8_E4M3", "I8", "I32"]), JSON),
    },
)


@given(said=(JSON | STRANGE | STRANGE.map(lambda it: {"source": "org/m", "revision": "main"} | it)).map(json.dumps))
@example(said="[" * 4096)
@example(said='{"source": "org/m", "revision": "main", "config": {"model_type": "\\ud800"}, "elements": {}}')
@example(said=json.dumps({"source": "m" * 600, "revision": "main"}))
def test_whatever_stands_in_the_files_of_a_model_is_read_without_an_error(said: str) -> None:
    model = found_model(said)
    if model is not None:
        json.dumps(model.to_wire(), ensure_ascii=False).encode()  # as it is written into a status
        assert (model.shape is None) == bool(model.message)


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": ["llama"]},
        {"layer_types": 3},
        {"quantization_config": {"quant_method": ["awq"]}},
        {"kv_lora_rank": 512, "qk_rope_head_dim": "x"},
    ],
    ids=["kind", "layers", "quantization", "latent"],
)
def test_an_entry_of_a_strange_form_is_told_in_the_message(change: dict[str, Any]) -> None:
    message = found({**LLAMA, **change}, BF16=100).message
    assert message.startswith("the model's config.json or weights have an entry of a form that is not known (")
    assert message.endswith(")")


def test_what_was_found_holds_for_one_revision_of_one_model() -> None:
    model = found(LLAMA, BF16=1)
    assert is_of(model, ModelSource(source="org/m"))
    assert is_of(model, ModelSource(source="org/m", revision="main"))
    assert not is_of(model, ModelSource(source="org/m", revision="v2"))
    assert not is_of(model, ModelSource(source="org/other"))
    assert not is_of(None, ModelSource(source="org/m"))
