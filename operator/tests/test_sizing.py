from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from startup_logs import LLAMA_3_1_8B, LLAMA_3_3_70B, QWEN2_5_7B, QWEN3_4B

from workslice_operator.gpu_products import known_slices
from workslice_operator.sizing import GIB, EngineSettings, ModelShape, cache_bytes, nearest_change, size

DEFAULTS = EngineSettings("0.33.0", 8192, 64, 2048)
H100 = known_slices("NVIDIA-H100-80GB-HBM3")

shapes = st.builds(
    ModelShape,
    parameters=st.integers(10**8, 10**11),
    layers=st.integers(1, 128),
    hidden_size=st.integers(256, 16384),
    intermediate_size=st.integers(256, 65536),
    kv_heads=st.integers(1, 64),
    head_size=st.sampled_from((64, 80, 128, 256)),
    vocabulary=st.integers(1000, 262_144),
    tied_embeddings=st.booleans(),
    sliding_window=st.none() | st.integers(1, 200_000),
).flatmap(
    lambda shape: st.builds(
        lambda count: replace(shape, sliding_layers=count if shape.sliding_window else 0), st.integers(0, shape.layers)
    )
)
settings = st.builds(
    EngineSettings,
    version=st.sampled_from(("0.6.4", "0.11.0", "0.20.1", "0.33.0")),
    max_tokens=st.integers(16, 200_000),
    max_concurrent=st.integers(1, 1024),
    batched_tokens=st.integers(1024, 16384),
    gpu_utilization=st.floats(0.05, 0.99),
    kv_cache_bytes=st.none() | st.integers(GIB // 64, 100 * GIB),
    dtype=st.sampled_from(("bfloat16", "float16", "float32")),
    quantization=st.sampled_from(("none", "fp8", "int8", "awq", "gptq")),
    kv_cache_dtype=st.sampled_from(("auto", "fp8")),
)
memories = st.integers(4 * GIB, 180 * GIB)


@given(shapes, settings, memories, memories)
def test_more_memory_never_holds_less(shape: ModelShape, engine: EngineSettings, memory: int, more: int) -> None:
    small, large = (size(shape, engine, one) for one in sorted((memory, more)))
    assert small.kv_bytes <= large.kv_bytes
    assert small.kv_tokens <= large.kv_tokens
    assert small.fits <= large.fits


@given(shapes, settings, memories, st.integers(16, 200_000))
def test_a_shorter_context_fits_wherever_a_longer_one_does(
    shape: ModelShape, engine: EngineSettings, memory: int, other: int
) -> None:
    short, long = (size(shape, replace(engine, max_tokens=one), memory) for one in sorted((engine.max_tokens, other)))
    assert short.kv_bytes == long.kv_bytes
    assert short.concurrency >= long.concurrency
    assert short.fits >= long.fits


@given(shapes, settings, memories)
def test_fewer_sequences_smaller_steps_and_fewer_bits_never_hold_less(
    shape: ModelShape, engine: EngineSettings, memory: int
) -> None:
    now = size(shape, engine, memory)
    for change in (
        {"max_concurrent": max(1, engine.max_concurrent // 2)},
        {"batched_tokens": engine.batched_tokens // 2},
        {"kv_cache_dtype": "fp8"},
        {"quantization": "awq"},
    ):
        assert size(shape, replace(engine, **change), memory).kv_tokens >= now.kv_tokens, change


@given(shapes, settings, memories)
def test_the_parts_never_exceed_the_whole(shape: ModelShape, engine: EngineSettings, memory: int) -> None:
    sized = size(shape, engine, memory)
    if sized.kv_bytes:
        assert sized.weights + sized.overhead + sized.kv_bytes <= memory
    assert shape.sliding_layers or sized.kv_tokens % 16 == 0
    if sized.fits:
        assert sized.kv_tokens >= engine.max_tokens
        assert sized.concurrency >= 1


@given(shapes, settings, memories)
def test_a_window_longer_than_any_request_saves_nothing(shape: ModelShape, engine: EngineSettings, memory: int) -> None:
    whole = replace(shape, sliding_window=None, sliding_layers=0)
    one_kind = replace(shape, sliding_window=10**6, sliding_layers=shape.layers)
    assert size(one_kind, engine, memory).kv_bytes == size(whole, engine, memory).kv_bytes
    assert size(one_kind, engine, memory).concurrency <= size(whole, engine, memory).concurrency


@given(shapes, settings, memories)
def test_whatever_is_proposed_makes_it_fit(shape: ModelShape, engine: EngineSettings, memory: int) -> None:
    slices = {"small": 10 * GIB, "large": 80 * GIB}
    change = nearest_change(shape, engine, memory, slices.items())
    if size(shape, engine, memory).fits:
        assert change is None
    else:
        assume(change is not None)
        assert change is not None
        assert size(shape, change.settings, slices[change.slice] if change.slice else memory).fits


def test_a_model_of_eight_billion_weights_needs_a_quarter_of_an_h100s_memory() -> None:
    fitting = [name for name, memory in H100.items() if size(LLAMA_3_1_8B, DEFAULTS, memory).fits]
    assert fitting == ["1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]


def test_what_fits_is_told_in_tokens_and_requests() -> None:
    assert size(LLAMA_3_1_8B, DEFAULTS, H100["2g.20gb"]).sentence == (
        "about 17,296 tokens of KV cache, 2.1 requests of 8,192 tokens at once "
        "(weights 15.0 GiB, overhead 1.0 GiB, KV cache 2.1 GiB of 18.1 GiB)"
    )


def test_weights_that_exceed_the_slice_are_told_with_the_slice_that_is_enough() -> None:
    sized = size(LLAMA_3_1_8B, DEFAULTS, H100["1g.10gb"])
    assert sized.sentence == "weights 15.0 GiB, overhead 1.0 GiB exceed the 9.0 GiB that the engine may use"
    assert sized.kv_tokens == 0
    change = nearest_change(LLAMA_3_1_8B, DEFAULTS, H100["1g.10gb"], H100.items())
    assert change is not None
    assert (change.slice, change.sentence) == ("1g.20gb", "use a 1g.20gb slice (19.6 GiB)")


def test_a_context_that_is_a_little_too_long_is_shortened() -> None:
    long = replace(DEFAULTS, max_tokens=20_000)
    change = nearest_change(LLAMA_3_1_8B, long, H100["2g.20gb"], H100.items())
    assert change is not None
    assert (change.settings.max_tokens, change.sentence) == (16_384, "lower workspace.maxTokens to 16,384")


def test_a_context_that_is_much_too_long_gets_a_smaller_cache_before_a_larger_slice() -> None:
    long = replace(DEFAULTS, max_tokens=32_800)
    change = nearest_change(LLAMA_3_1_8B, long, H100["2g.20gb"], H100.items())
    assert change is not None
    assert (change.settings.kv_cache_dtype, change.slice) == ("fp8", None)


def test_a_model_that_fits_nowhere_gets_no_false_hope() -> None:
    assert nearest_change(LLAMA_3_3_70B, DEFAULTS, H100["7g.80gb"], H100.items()) is None


def test_an_exact_kv_cache_is_held_to_what_the_slice_has_left() -> None:
    exact = replace(DEFAULTS, kv_cache_bytes=4 * GIB, quantization="awq")
    assert size(QWEN2_5_7B, exact, 16 * GIB).kv_tokens == 4 * GIB // (56 * 1024) // 16 * 16
    small = size(QWEN2_5_7B, exact, 10 * GIB)
    assert not small.fits
    assert small.sentence == "weights 5.3 GiB, overhead 1.0 GiB leave 3.7 GiB of 10.0 GiB, less than memory.kvCache"


def test_quantized_weights_leave_the_embeddings_as_they_are_and_count_shared_ones_once() -> None:
    quantized = replace(DEFAULTS, quantization="fp8")
    embeddings = QWEN3_4B.vocabulary * QWEN3_4B.hidden_size
    assert size(QWEN3_4B, quantized, 20 * GIB).weights == QWEN3_4B.parameters + embeddings
    apart = replace(QWEN3_4B, tied_embeddings=False)
    assert size(apart, quantized, 20 * GIB).weights == apart.parameters + 2 * embeddings


def test_graphs_are_set_aside_by_engines_that_count_them() -> None:
    before, after = (size(QWEN3_4B, replace(DEFAULTS, version=one), 20 * GIB).overhead for one in ("0.20.2", "0.21.0"))
    assert after - before == pytest.approx(GIB / 2, abs=1)


def test_latent_attention_caches_one_vector_of_a_token_in_each_layer() -> None:
    """As DeepSeek-V2-Lite on a stage of 14 layers printed it (https://github.com/vllm-project/vllm/pull/20665)."""
    stage = ModelShape(15_706_484_224, 14, 2048, 10944, 16, 128, 102_400, latent_size=512 + 64)
    available, tokens = 12.13 * GIB, 807_792
    assert cache_bytes(stage, DEFAULTS, tokens) == pytest.approx(available, rel=0.001)


WINDOWED = replace(QWEN3_4B, sliding_window=1024, sliding_layers=30)


def test_layers_with_a_window_leave_room_for_more_requests() -> None:
    long = replace(DEFAULTS, max_tokens=32_768)
    whole, windowed = (size(one, long, 20 * GIB) for one in (QWEN3_4B, WINDOWED))
    assert windowed.kv_bytes == pytest.approx(whole.kv_bytes, rel=0.01)
    # Of six groups one keeps 2,048 blocks, and five keep the window and two steps of 2,048 tokens that overlap.
    assert windowed.concurrency / whole.concurrency == pytest.approx(6 * 2048 / (2048 + 5 * (320 + 1)), rel=0.01)
    assert cache_bytes(WINDOWED, long, windowed.kv_tokens) == pytest.approx(windowed.kv_bytes, rel=0.001)


def test_steps_that_overlap_keep_more_of_a_window() -> None:
    before, after = (
        size(WINDOWED, replace(DEFAULTS, max_tokens=32_768, version=one), 20 * GIB) for one in ("0.25.0", "0.26.0")
    )
    assert before.kv_bytes == after.kv_bytes
    assert before.concurrency > after.concurrency


def test_a_context_that_is_too_long_for_layers_with_a_window_is_shortened_to_the_longest_that_fits() -> None:
    long = replace(DEFAULTS, max_tokens=2_000_000)
    change = nearest_change(WINDOWED, long, 16 * GIB)
    assert change is not None
    assert size(WINDOWED, change.settings, 16 * GIB).fits
    longer = replace(change.settings, max_tokens=change.settings.max_tokens + 1024)
    assert not size(WINDOWED, longer, 16 * GIB).fits


def test_weights_that_a_checkpoint_leaves_as_they_are_keep_their_size() -> None:
    quantized = replace(DEFAULTS, quantization="fp8")
    left = replace(QWEN3_4B, unquantized_parameters=10**9)
    assert size(left, quantized, 20 * GIB).weights == left.parameters + 10**9
