import pytest
from pool_facts import make_pool, make_profile

from workslice_api.engine_spec import OWNED_FLAGS
from workslice_api.profile import FLAGS_WITH_FIELD
from workslice_operator.render.engine_args import engine_args


def value_of(args: list[str], flag: str) -> str:
    return args[args.index(flag) + 1]


def test_the_model_comes_first_because_the_image_begins_with_vllm_serve() -> None:
    args = engine_args(make_pool(), make_profile())
    assert args[0] == "/models/tiny"
    assert args[1].startswith("--")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--host", "0.0.0.0"),
        ("--port", "8000"),
        ("--served-model-name", "tiny"),
        ("--max-model-len", "4096"),
        ("--max-num-seqs", "16"),
        ("--max-num-batched-tokens", "1024"),
        ("--gpu-memory-utilization", "0.8"),
        ("--kv-cache-memory-bytes", "67108864"),
        ("--shutdown-timeout", "90"),
        ("--long-prefill-token-threshold", "256"),
        ("--scheduling-policy", "priority"),
        ("--revision", "main"),
    ],
)
def test_every_setting_is_spelled_out(flag: str, value: str) -> None:
    profile = make_profile(
        model={"source": "org/model", "revision": "main"},
        memory={"kvCache": "64Mi", "gpuUtilization": 0.8},
        workspace={"maxTokens": 4096, "maxConcurrent": 16},
        engine={"batchedTokens": 1024, "longPrefillTokenThreshold": 256},
    )
    assert value_of(engine_args(make_pool(drain={"timeout": "1m30s"}), profile), flag) == value


def test_types_of_weights_and_cache_are_told_only_where_the_profile_says_something_of_them() -> None:
    plain = engine_args(make_pool(), make_profile())
    assert not {"--dtype", "--quantization", "--kv-cache-dtype"} & set(plain)
    model = {"source": "org/model", "dtype": "float16", "quantization": "fp8"}
    args = engine_args(make_pool(), make_profile(model=model, engine={"kvCacheDtype": "fp8"}))
    assert (value_of(args, "--dtype"), value_of(args, "--kv-cache-dtype")) == ("float16", "fp8")


@pytest.mark.parametrize(
    ("version", "method"), [("0.19.1", "fp8"), ("0.20.0", "fp8_per_tensor"), ("0.33.0", "fp8_per_tensor")]
)
def test_quantizing_while_loading_is_asked_for_by_the_name_that_the_version_has_for_it(
    version: str, method: str
) -> None:
    profile = make_profile(model={"source": "org/model", "quantization": "fp8"}, engine={"version": version})
    assert value_of(engine_args(make_pool(), profile), "--quantization") == method


def test_of_a_checkpoint_that_is_quantized_the_engine_is_told_nothing_since_it_picks_the_faster_kernel_by_itself() -> (
    None
):
    shape = dict.fromkeys(
        ("parameters", "layers", "hiddenSize", "intermediateSize", "kvHeads", "headSize", "vocabulary"), 1
    )
    profile = make_profile(model={"source": "org/model", "shape": shape | {"quantization": "awq"}})
    assert "--quantization" not in engine_args(make_pool(), profile)


def test_aliases_never_reach_the_engine() -> None:
    args = engine_args(make_pool(aliases=["gpt-4"]), make_profile())
    assert "gpt-4" not in args


def test_without_kv_cache_the_engine_sizes_it_itself() -> None:
    assert "--kv-cache-memory-bytes" not in engine_args(make_pool(), make_profile())


def test_a_threshold_above_the_context_is_cut_to_it_since_vllm_would_refuse_to_start() -> None:
    profile = make_profile(workspace={"maxTokens": 256}, engine={"longPrefillTokenThreshold": 512})
    assert value_of(engine_args(make_pool(), profile), "--long-prefill-token-threshold") == "256"


def test_extra_arguments_come_last_and_unchanged() -> None:
    profile = make_profile(engine={"extraArgs": ["--enforce-eager", "--dtype=float32"]})
    assert engine_args(make_pool(), profile)[-2:] == ["--enforce-eager", "--dtype=float32"]


@pytest.mark.parametrize(
    ("version", "known"), [("0.17.1", False), ("0.18.0", True), ("0.32.0+cpu", True), ("1.0", True)]
)
def test_an_engine_is_given_only_flags_that_its_version_knows(version: str, known: bool) -> None:
    args = engine_args(make_pool(), make_profile(engine={"version": version}))
    assert ("--shutdown-timeout" in args) is known


def test_every_flag_that_the_builder_sets_is_refused_in_extra_args() -> None:
    profile = make_profile(model={"source": "org/m", "revision": "x"}, memory={"kvCache": "1Gi"})
    flags = {one for one in engine_args(make_pool(), profile) if one.startswith("--")}
    assert flags <= set(OWNED_FLAGS)


def test_a_flag_that_has_a_field_is_refused_in_extra_args_when_the_field_is_set() -> None:
    model = {"source": "org/m", "dtype": "float16", "quantization": "fp8"}
    profile = make_profile(model=model, engine={"kvCacheDtype": "fp8"})
    flags = {one for one in engine_args(make_pool(), profile) if one.startswith("--")}
    assert flags - set(OWNED_FLAGS) == set(FLAGS_WITH_FIELD)


@pytest.mark.parametrize(
    ("source", "argument"),
    [
        ("org/model", "org/model"),
        ("/opt/model", "/opt/model"),
        ("pvc://weights/llama/8b", "/models/llama/8b"),
        ("pvc://weights", "/models"),
        ("pvc://weights/", "/models"),
    ],
)
def test_the_source_becomes_what_vllm_understands(source: str, argument: str) -> None:
    assert engine_args(make_pool(), make_profile(model={"source": source}))[0] == argument
