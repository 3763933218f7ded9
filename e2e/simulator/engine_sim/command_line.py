"""Reads vLLM's command line: the flags that Workslice and its users set, and a few of the simulator's own (--sim-...).

A flag that vLLM does not know ends the process with status 2, as there; settings that cannot work end it with status 1 and a
message that says why.
"""

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from engine_sim.faults import Faults
from engine_sim.scheduler import Limits
from engine_sim.settings import Settings
from engine_sim.step_time import GIGA, LLAMA_8B, SLICES, Model

_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_RESERVED_BYTES: Final = 1.5 * GIGA
"""What an engine needs beside weights and KV cache."""
_WITHOUT_EFFECT: Final = """
--chat-template --compilation-config --config-format --disable-access-log-for-endpoints --download-dir --dtype
--generation-config --hf-overrides --kv-cache-dtype --kv-offloading-size --kv-transfer-config
--limit-mm-per-prompt --load-format --max-logprobs --max-num-active-seqs --performance-mode
--prefix-caching-hash-algo --quantization --reasoning-parser --revision --stream-interval --tokenizer
--tokenizer-mode --tokenizer-revision --tool-call-parser --uvicorn-log-level
"""
_SWITCHES_WITHOUT_EFFECT: Final = """
--async-scheduling --disable-fastapi-docs --disable-log-stats --enable-chunked-prefill --enable-log-outputs
--enable-log-requests --enable-sleep-mode --enforce-eager --no-async-scheduling --no-enable-chunked-prefill
--no-enable-log-requests --no-enforce-eager --scheduler-reserve-full-isl --trust-remote-code
"""


class CannotStart(Exception):
    """The settings do not fit together."""


def read(arguments: Sequence[str], environment: dict[str, str]) -> Settings:
    """The settings that the words of a command line mean. Raises CannotStart; leaves by SystemExit(2) for unknown words."""
    words = [word if not word.startswith("--") else _spelled(word) for word in arguments]
    given = _parser().parse_args(words)
    path = given.model_flag or given.model
    if path is None:
        raise CannotStart("no model is named: give it as the first argument")
    model, own_context = _model(path)
    context = given.max_model_len or own_context
    if context > own_context:
        raise CannotStart(
            f"User-specified max_model_len ({context}) is greater than the derived max_model_len "
            f"(max_position_embeddings={own_context})."
        )
    if given.long_prefill_token_threshold > context:
        raise CannotStart(
            f"long_prefill_token_threshold ({given.long_prefill_token_threshold}) cannot be greater than the max_model_len "
            f"({context})."
        )
    gpu = SLICES[given.sim_slice]
    room = given.kv_cache_memory_bytes
    if room is None:
        room = int(gpu.memory * given.gpu_memory_utilization - model.weight_bytes - _RESERVED_BYTES)
    blocks = max(0, room) // (model.kv_bytes_per_token * given.block_size)
    if blocks <= 0:
        raise CannotStart(
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."
        )
    if blocks * given.block_size < context:
        needed, found = context * model.kv_bytes_per_token / 2**30, room / 2**30
        raise CannotStart(
            f"To serve at least one request with the models's max seq len ({context}), ({needed:.2f} GiB KV cache is needed, "
            f"which is larger than the available KV cache memory ({found:.2f} GiB). Based on the available memory, the estimated "
            f"maximum model length is {blocks * given.block_size}. Try increasing `gpu_memory_utilization` or decreasing "
            "`max_model_len` when initializing the engine."
        )
    api_key = environment.get("VLLM_API_KEY")
    return Settings(
        model_path=path,
        served_names=tuple(given.served_model_name or [path]),
        host=given.host,
        port=given.port,
        context=context,
        limits=Limits(
            sequences=given.max_num_seqs,
            batched_tokens=given.max_num_batched_tokens,
            long_prefill_threshold=given.long_prefill_token_threshold,
            by_priority=given.scheduling_policy == "priority",
            block_size=given.block_size,
            prefix_caching=given.enable_prefix_caching,
            watermark=given.watermark,
        ),
        kv_blocks=blocks,
        model=model,
        gpu=gpu,
        shutdown_timeout=given.shutdown_timeout,
        gpu_utilization=given.gpu_memory_utilization,
        kv_cache_bytes=given.kv_cache_memory_bytes,
        most_queued_requests=given.max_num_queued_reqs,
        most_queued_tokens=given.max_num_queued_tokens,
        api_keys=tuple(given.api_key or ([api_key] if api_key else [])),
        keep_alive_interval=given.sse_keep_alive_interval,
        forces_usage=given.enable_force_include_usage,
        tells_cached_tokens=given.enable_prompt_tokens_details,
        tells_request_id=given.enable_request_id_headers,
        tracks_load=given.enable_server_load_tracking,
        parses_tools=given.enable_auto_tool_choice,
        stays_after_core_death=environment.get("VLLM_KEEP_ALIVE_ON_ENGINE_DEATH") == "1",
        logs_requests=not given.disable_uvicorn_access_log,
        seed=given.seed,
        speed=given.sim_speed,
        mean_answer=given.sim_mean_answer,
        faults=given.sim_faults,
        fault_route=given.sim_fault_route,
        journal=given.sim_journal,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vllm serve", description="A simulator of `vllm serve`; takes its flags.")
    add = parser.add_argument
    add("model", nargs="?", help="a folder with a config.json, or any other name for a model of 8 billion parameters")
    add("--model", dest="model_flag", help=argparse.SUPPRESS)
    add("--host", default="0.0.0.0")
    add("--port", type=int, default=8000)
    add("--served-model-name", nargs="+")
    add("--max-model-len", type=_count)
    add("--max-num-seqs", type=_positive, default=256)
    add("--max-num-batched-tokens", type=_positive, default=2048)
    add("--long-prefill-token-threshold", type=_count, default=0)
    add("--scheduling-policy", choices=("fcfs", "priority"), default="fcfs")
    add("--block-size", type=_positive, default=16)
    add("--watermark", type=float, default=0.0)
    add("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True)
    add("--gpu-memory-utilization", "--device-memory-utilization", type=float, default=0.92)
    add("--kv-cache-memory-bytes", type=_positive)
    add("--shutdown-timeout", type=float, default=0.0)
    add("--max-num-queued-reqs", type=_count)
    add("--max-num-queued-tokens", type=_count)
    add("--api-key", nargs="+")
    add("--sse-keep-alive-interval", type=int, default=0)
    add("--seed", type=int, default=0)
    for name in (
        "--enable-force-include-usage",
        "--enable-prompt-tokens-details",
        "--enable-request-id-headers",
        "--enable-server-load-tracking",
        "--enable-auto-tool-choice",
        "--disable-uvicorn-access-log",
    ):
        add(name, action="store_true")
    for name in _WITHOUT_EFFECT.split():
        add(name, help=argparse.SUPPRESS)
    for name in _SWITCHES_WITHOUT_EFFECT.split():
        add(name, action="store_true", help=argparse.SUPPRESS)
    own = parser.add_argument_group("of the simulator")
    own.add_argument(
        "--sim-slice", choices=SLICES, default="3g.40gb", help="the slice of an H100 that it has (default 3g.40gb)"
    )
    own.add_argument("--sim-speed", type=_speed, default=1.0, help="how many times faster than that slice it works")
    own.add_argument(
        "--sim-mean-answer", type=_speed, default=128.0, help="tokens before the model ends by itself, on average"
    )
    own.add_argument("--sim-faults", type=_faults, default=Faults(), help="what goes wrong, as JSON; see faults.py")
    own.add_argument("--sim-fault-route", action="store_true", help="let PUT /simulator/faults set faults")
    own.add_argument("--sim-journal", type=Path, metavar="FILE", help="add a line for each POST that comes or goes")
    return parser


def _spelled(word: str) -> str:
    """A flag with dashes, as vLLM takes underscores too."""
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value


def _model(path: str) -> tuple[Model, int]:
    """Cost and context of the model in a folder, or those of the default one when the name is not a path."""
    file = Path(path) / "config.json"
    if not file.is_file():
        if path.startswith("/"):
            raise CannotStart(f"there is no model in {path}: config.json is missing")
        return LLAMA_8B, 131_072
    try:
        return _described(json.loads(file.read_text()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CannotStart(f"{file} does not describe a model: {type(error).__name__} {error}") from error


def _described(config: dict[str, Any]) -> tuple[Model, int]:
    hidden, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    width = config.get("head_dim") or hidden // heads
    tables = 1 if config.get("tie_word_embeddings") else 2
    attention = 2 * hidden * width * (heads + kv_heads)
    parameters = tables * config["vocab_size"] * hidden + layers * (
        attention + 3 * hidden * config["intermediate_size"]
    )
    kv_bytes = 2 * layers * kv_heads * width * 2
    return Model(parameters, 2 * parameters, kv_bytes, layers, hidden), config.get("max_position_embeddings", 2048)


def _count(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgtKMGT]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 2048, 4k or 64M")
    return int(float(match[1]) * _UNITS[match[2]])


def _positive(text: str) -> int:
    number = _count(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _speed(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def _faults(text: str) -> Faults:
    try:
        return Faults.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise argparse.ArgumentTypeError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
