from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pool_facts import make_profile
from pydantic.alias_generators import to_camel
from startup_logs import LLAMA_3_1_8B, LLAMA_3_3_70B

from workslice_api.names import Reason
from workslice_api.profile import SliceFit, WorkspaceProfile
from workslice_api.slices import slice_resource
from workslice_operator.memory_settings import engine_settings, model_shape
from workslice_operator.profile_fit import profile_fit
from workslice_operator.sizing import ModelShape
from workslice_operator.slice_inventory import NodeSlices, SliceInventory

H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"
MIB = 2**20
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "gpu" / "profiles.yaml"


def stated(shape: ModelShape, **more: Any) -> dict[str, Any]:
    return {
        "source": "pvc://models/llama",
        "shape": {to_camel(name): value for name, value in vars(shape).items() if name != "sliding_layers"} | more,
    }


def llama(
    *slices: str, model: dict[str, Any] | None = None, products: tuple[str, ...] = (), **spec: Any
) -> WorkspaceProfile:
    chosen = {"profiles": list(slices), "products": list(products)}
    return make_profile(model=model or stated(LLAMA_3_1_8B), slice=chosen, **spec)


def node(product: str, *slices: str, labels: dict[str, str] | None = None) -> NodeSlices:
    return NodeSlices(
        product, product, True, {slice_resource(one): 1 for one in slices}, {}, memory_labels=labels or {}
    )


CLUSTER = SliceInventory((node(H100, "1g.10gb", "2g.20gb", "3g.40gb"),))


def test_the_settings_of_the_account_are_those_that_the_engine_is_given() -> None:
    profile = llama(
        "1g.10gb",
        model=stated(LLAMA_3_1_8B, quantization="awq") | {"dtype": "float16"},
        workspace={"maxTokens": 4096, "maxConcurrent": 16},
        memory={"kvCache": "1Gi", "gpuUtilization": 0.9},
        engine={
            "batchedTokens": 1024,
            "version": "0.32.0+cpu",
            "kvCacheDtype": "fp8",
            "extraArgs": ["--enforce-eager"],
        },
    )
    it = engine_settings(profile)
    assert model_shape(profile) == LLAMA_3_1_8B
    assert (it.version, it.max_tokens, it.max_concurrent, it.batched_tokens) == ("0.32.0+cpu", 4096, 16, 1024)
    assert (it.kv_cache_bytes, it.gpu_utilization) == (2**30, 0.9)
    assert (it.dtype, it.quantization, it.kv_cache_dtype, it.cuda_graphs) == ("float16", "awq", "fp8", False)


def test_a_slice_with_room_has_its_account_in_the_row() -> None:
    fit = profile_fit(llama("2g.20gb"), CLUSTER)
    (row,) = fit.rows
    assert (fit.finding.status, fit.finding.reason) == (True, Reason.ESTIMATED)
    assert (row.fits, row.source, row.product, row.usable_bytes) == (True, "estimated", H100, 20096 * MIB)
    assert (row.kv_tokens, row.max_concurrent) == (17296, 2)
    assert row.kv_bytes == 17296 * 128 * 1024
    assert (row.weight_bytes or 0) + (row.overhead_bytes or 0) + (row.kv_bytes or 0) <= 20096 * MIB * 0.92


def test_a_model_without_room_is_refused_with_the_numbers_and_what_would_do() -> None:
    fit = profile_fit(llama("1g.10gb"), CLUSTER)
    assert (fit.finding.status, fit.finding.reason, fit.rows[0].fits) == (False, Reason.DOES_NOT_FIT, False)
    assert fit.finding.message == (
        "1g.10gb: weights 15.0 GiB, overhead 1.0 GiB exceed the 9.0 GiB that the engine may use; use a 1g.20gb slice (19.6 GiB)"
    )


def test_one_slice_of_several_is_enough() -> None:
    fit = profile_fit(llama("1g.10gb", "3g.40gb"), CLUSTER)
    assert [one.fits for one in fit.rows] == [False, True]
    assert fit.finding.status is True


def test_a_model_that_no_slice_holds_is_told_so() -> None:
    message = profile_fit(llama("3g.40gb", model=stated(LLAMA_3_3_70B)), CLUSTER).finding.message
    assert message.endswith("no slice of these GPUs is enough: take a smaller model, or one with quantized weights")


def test_without_a_shape_nothing_is_refused() -> None:
    fit = profile_fit(llama("1g.10gb", model={"source": "org/huge"}), CLUSTER)
    assert (fit.finding.status, fit.finding.reason) == (None, Reason.SHAPE_UNKNOWN)
    assert (fit.rows[0].fits, fit.rows[0].usable_bytes) == (None, 9984 * MIB)


def test_a_slice_whose_memory_nobody_tells_is_not_refused() -> None:
    for inventory in (None, SliceInventory(), SliceInventory((node("NVIDIA-B300", "1g.34gb"),))):
        fit = profile_fit(llama("1g.34gb"), inventory)
        assert (fit.finding.status, fit.finding.reason) == (None, Reason.MEMORY_UNKNOWN)


def test_the_label_of_the_node_counts_more_than_what_is_known_of_the_product() -> None:
    small = SliceInventory((node(H100, "2g.20gb", labels={"nvidia.com/mig-2g.20gb.memory": "12000"}),))
    assert profile_fit(llama("2g.20gb"), small).finding.status is False


def test_a_named_product_tells_the_memory_while_no_node_does() -> None:
    fit = profile_fit(llama("1g.10gb", products=(H100,)), SliceInventory())
    assert fit.finding.status is False


def test_the_memory_of_a_node_that_has_gone_is_remembered() -> None:
    profile = llama("1g.10gb")
    seen = list(profile_fit(profile, CLUSTER).rows)
    remembering = profile.model_copy(update={"status": profile.status.model_copy(update={"slices": seen})})
    assert profile_fit(remembering, SliceInventory()).finding.status is False
    assert profile_fit(remembering, None).finding.status is False


def test_of_two_products_the_one_with_room_is_told_and_the_other_named() -> None:
    long = {"maxTokens": 15000, "maxConcurrent": 64}
    both = SliceInventory(
        (node(A100, "2g.20gb"), node(H100, "2g.20gb", labels={"nvidia.com/mig-2g.20gb.memory": "21000"}))
    )
    fit = profile_fit(llama("2g.20gb", workspace=long | {"maxTokens": 20000}), both)
    assert fit.finding.status is True
    assert fit.rows[0].product == H100
    assert f"not on {A100}: leave it out of slice.products" in fit.finding.message


@pytest.mark.parametrize(
    "argument",
    ["--quantization=bitsandbytes", "-q", "--quant", "--kv_cache_dtype", "--speculative-config={}", "--enable-lora"],
)
def test_an_argument_that_changes_memory_makes_no_verdict(argument: str) -> None:
    fit = profile_fit(llama("1g.10gb", engine={"extraArgs": ["--enforce-eager", argument]}), CLUSTER)
    assert (fit.finding.status, fit.finding.reason, fit.rows[0].fits) == (None, Reason.ARGUMENTS_UNKNOWN, None)


SLIDING = {"slidingWindow": 1024, "slidingLayers": 24}


def test_layers_with_a_window_make_room_for_a_longer_context() -> None:
    long = {"maxTokens": 40_000}
    assert profile_fit(llama("2g.20gb", workspace=long), CLUSTER).finding.status is False
    fit = profile_fit(llama("2g.20gb", model=stated(LLAMA_3_1_8B, **SLIDING), workspace=long), CLUSTER)
    assert fit.finding.status is True
    (row,) = fit.rows
    assert row.kv_bytes is not None
    assert row.kv_tokens is not None
    assert row.kv_tokens > 40_000


@pytest.mark.parametrize(
    ("version", "status"), [("0.10.2", None), ("0.11.0", False), ("0.33.0", False)], ids=lambda value: str(value)
)
def test_of_an_engine_that_may_cache_the_whole_context_for_a_window_nothing_is_said(
    version: str, status: bool | None
) -> None:
    finding = profile_fit(
        llama("1g.10gb", model=stated(LLAMA_3_1_8B, **SLIDING), engine={"version": version}), CLUSTER
    ).finding
    assert finding.status is status
    if status is None:
        assert finding.reason == Reason.SHAPE_UNKNOWN
        assert finding.message == (
            "how vLLM 0.10.2 caches layers with a sliding window is not known, so whether the model fits shows when an engine starts"
        )


@pytest.mark.parametrize(
    "argument",
    ["--disable-hybrid-kv-cache-manager", "--block-size=32", "--kv_transfer_config", "--kv-events-config={}"],
)
def test_an_argument_that_changes_how_windows_are_cached_makes_no_verdict_for_models_that_have_them(
    argument: str,
) -> None:
    engine = {"extraArgs": [argument]}
    windowed = profile_fit(llama("1g.10gb", model=stated(LLAMA_3_1_8B, **SLIDING), engine=engine), CLUSTER)
    assert (windowed.finding.status, windowed.finding.reason) == (None, Reason.ARGUMENTS_UNKNOWN)
    assert profile_fit(llama("1g.10gb", engine=engine), CLUSTER).finding.status is False


def test_other_arguments_do_not_matter() -> None:
    given = ["--enforce-eager", "--enable-prefix-caching", "--block-size", "16"]
    assert profile_fit(llama("1g.10gb", engine={"extraArgs": given}), CLUSTER).finding.status is False


@given(
    st.lists(
        st.sampled_from(["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "7g.80gb", "1g.34gb"]),
        min_size=1,
        max_size=6,
        unique=True,
    ),
    st.sampled_from([LLAMA_3_1_8B, LLAMA_3_3_70B]),
    st.integers(16, 200_000),
    st.sampled_from([None, SliceInventory(), CLUSTER]),
)
def test_the_verdict_follows_from_the_rows(
    slices: list[str], shape: ModelShape, context: int, inventory: SliceInventory | None
) -> None:
    fit = profile_fit(llama(*slices, model=stated(shape), workspace={"maxTokens": context}), inventory)
    assert [one.profile for one in fit.rows] == slices
    verdicts = [one.fits for one in fit.rows]
    expected = True if True in verdicts else None if None in verdicts else False
    assert fit.finding.status is expected
    assert all(SliceFit.model_validate(one.to_wire()) == one for one in fit.rows)


@pytest.mark.parametrize("raw", list(yaml.safe_load_all(EXAMPLES.read_text())), ids=lambda raw: raw["metadata"]["name"])
def test_the_examples_fit_the_slices_that_they_name(raw: dict[str, Any]) -> None:
    fit = profile_fit(WorkspaceProfile.model_validate(raw), None)
    assert (fit.finding.status, fit.finding.reason) == (True, Reason.ESTIMATED), fit.finding.message
