import pytest

from engine_sim.command_line import read
from engine_sim.step_time import LLAMA_8B, SLICES, seconds, work


@pytest.mark.parametrize(
    ("gpu", "prefill_rate", "decode_milliseconds", "kv_tokens"),
    [("7g.80gb", 27_800, 5.9, 485_000), ("3g.40gb", 12_600, 9.3, 204_000), ("2g.20gb", 6_700, 16, 64_000)],
)
def test_a_slice_is_as_fast_and_as_large_as_the_model_of_the_policy_studies(
    gpu: str, prefill_rate: float, decode_milliseconds: float, kv_tokens: int
) -> None:
    """The figures of the study whose formula this is; there attention costs nothing, here a few percent."""
    whole = work(LLAMA_8B, [(2048, 0)]).flops / SLICES[gpu].flops
    assert 2048 / whole == pytest.approx(prefill_rate, rel=0.04)
    assert seconds(SLICES[gpu], work(LLAMA_8B, [(1, 500)])) * 1000 == pytest.approx(decode_milliseconds, rel=0.03)
    settings = read(["some/model", "--sim-slice", gpu, "--max-model-len", "32768"], {})
    assert settings.kv_blocks * settings.limits.block_size == pytest.approx(kv_tokens, rel=0.02)


def test_decoding_for_many_at_once_costs_little_more_than_for_one() -> None:
    one = seconds(SLICES["3g.40gb"], work(LLAMA_8B, [(1, 500)]))
    assert seconds(SLICES["3g.40gb"], work(LLAMA_8B, [(1, 500)] * 32)) < 1.5 * one


def test_a_long_context_makes_each_token_dearer() -> None:
    short, long = (seconds(SLICES["3g.40gb"], work(LLAMA_8B, [(1, before)])) for before in (500, 60_000))
    assert long > 1.5 * short
