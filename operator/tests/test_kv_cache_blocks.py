import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_operator.kv_cache_blocks import CacheBlocks, cache_blocks

ENGINE = [
    (18, 0, 128, 2048, 129_891, 4096, 29_642_116_123, 25_127, 9_577_562_112),
    (72, 72, 128, 8192, 87_230, 4096, 59_088_945_654, 12_522, 4_874_305_536),
    (27, 13, 4096, 8192, 113_463, 1024, 34_127_092_312, 148_782, 1_920_565_248),
    (35, 30, 1024, 1024, 8034, 1024, 38_223_259_613, 466_592, 136_069_120),
    (71, 29, 512, 2048, 120_498, 2048, 58_695_795_898, 42_648, 10_763_698_176),
    (25, 9, 4096, 2048, 9066, 16_384, 55_807_648_204, 23_654, 3_885_760_512),
    (67, 50, 128, 1024, 123_045, 16_384, 59_929_319_740, 13_447, 36_106_141_696),
    (79, 66, 512, 8192, 44_211, 16_384, 5_291_728_891, 1552, 31_032_082_432),
]
"""Layers, those with a window, the window, tokens in a step, a request's tokens, bytes of a token in a layer and bytes there are; then what
vLLM 0.32.0 makes of it: blocks, and bytes that the request needs. From its functions get_kv_cache_groups, get_kv_cache_config_from_groups
and _max_memory_usage_bytes_from_groups, with two steps in flight; 400 models that were made up at random all agreed.
"""


@pytest.mark.parametrize("case", ENGINE, ids=lambda case: f"{case[1]} of {case[0]} layers")
def test_the_cache_is_shared_out_as_the_engine_does_it(case: tuple[int, ...]) -> None:
    layers, sliding, window, step, tokens, token_bytes, there, blocks, needed = case
    cache = cache_blocks(layers, sliding, window - 1 + 2 * step, token_bytes)
    assert (there // cache.bytes, cache.needed(tokens) * cache.bytes) == (blocks, needed)


caches = st.integers(1, 200).flatmap(
    lambda layers: st.builds(
        cache_blocks, st.just(layers), st.integers(0, layers), st.integers(1, 50_000), st.just(4096)
    )
)


@given(caches, st.integers(0, 10**6), st.integers(1, 200_000))
def test_the_longest_request_that_fits_is_found(cache: CacheBlocks, blocks: int, below: int) -> None:
    longest = cache.longest(blocks, below)
    assert longest == 0 or cache.needed(longest) <= blocks
    assert longest + 1 >= below or cache.needed(longest + 1) > blocks


@given(st.integers(1, 200), st.data())
def test_every_layer_has_a_place_in_a_group(layers: int, data: st.DataObject) -> None:
    sliding = data.draw(st.integers(0, layers))
    cache = cache_blocks(layers, sliding, 1000, 1)
    size = cache.bytes // 16
    assert cache.whole_groups * size >= layers - sliding
    assert cache.window_groups * size >= sliding
    assert bool(cache.whole_groups) == (sliding < layers)
    assert bool(cache.window_groups) == (sliding > 0)
