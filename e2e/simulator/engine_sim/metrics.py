"""What /metrics says about the engine: vLLM's names, labels and buckets."""

from collections.abc import Sequence as Many
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from engine_sim.scheduler import Sequence, State, Step, Token
from engine_sim.settings import Settings
from engine_sim.step_time import Work

_LABELS: Final = ("model_name", "engine")
_TTFT: Final = (
    *(
        0.001,
        0.005,
        0.01,
        0.02,
        0.04,
        0.06,
        0.08,
        0.1,
        0.25,
        0.5,
        0.75,
        1.0,
        2.5,
        5.0,
        7.5,
        10.0,
        20.0,
        40.0,
        80.0,
        160.0,
    ),
    *(640.0, 2560.0),
)
_ITL: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_LATENCY: Final = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0),
    *(1920.0, 7680.0),
)
_STEP: Final = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_COUNTERS: Final = {
    "prefix_cache_queries": "Prefix cache queries, in tokens.",
    "prefix_cache_hits": "Prefix cache hits, in tokens.",
    "external_prefix_cache_queries": "Queries of a prefix cache outside the engine, in tokens; there is none.",
    "external_prefix_cache_hits": "Hits of a prefix cache outside the engine, in tokens; there is none.",
    "mm_cache_queries": "Queries of the multi-modal cache; there is none.",
    "mm_cache_hits": "Hits of the multi-modal cache; there is none.",
    "num_preemptions": "Sequences that gave up their KV blocks.",
    "prompt_tokens": "Prompt tokens processed.",
    "prompt_tokens_cached": "Prompt tokens that a cache spared.",
    "generation_tokens": "Tokens generated.",
    "estimated_flops_per_gpu_total": "Operations computed, estimated.",
    "estimated_read_bytes_per_gpu_total": "Bytes read from memory, estimated.",
    "estimated_write_bytes_per_gpu_total": "Bytes written to memory, estimated.",
}
_BY_SOURCE: Final = ("local_compute", "local_cache_hit", "external_kv_transfer")
_CACHES: Final = ("device", "host", "p2p", "disk", "external_unspecified")
_REASONS: Final = ("stop", "length", "abort", "error", "repetition")


def token_buckets(context: int) -> list[int]:
    """Bounds 1, 2, 5, 10, 20 ... up to the context."""
    return [
        first * 10**power for power in range(len(str(context))) for first in (1, 2, 5) if first * 10**power <= context
    ]


class EngineMetrics:
    """The numbers of one engine. Gauges follow its steps, as vLLM's do: while it stands still, so do they."""

    def __init__(self, settings: Settings) -> None:
        self._own = (settings.served_names[0], "0")
        gauges = {
            "num_requests_running": "Sequences in the engine's batches.",
            "num_requests_waiting": "Sequences that wait.",
            "kv_cache_usage_perc": "Share of the KV cache in use, 0 to 1.",
        }
        self._gauges = {name: Gauge(f"vllm:{name}", text, _LABELS).labels(*self._own) for name, text in gauges.items()}
        by_reason = Gauge(
            "vllm:num_requests_waiting_by_reason", "Sequences that wait, by reason.", (*_LABELS, "reason")
        )
        self._waiting = {reason: by_reason.labels(*self._own, reason) for reason in ("capacity", "deferred")}
        sleep = Gauge("vllm:engine_sleep_state", "Whether the engine sleeps; it never does.", (*_LABELS, "sleep_state"))
        for state, value in (("awake", 1), ("weights_offloaded", 0), ("discard_all", 0)):
            sleep.labels(*self._own, state).set(value)
        self._counters = {
            name: Counter(f"vllm:{name}", text, _LABELS).labels(*self._own) for name, text in _COUNTERS.items()
        }
        sources = Counter("vllm:prompt_tokens_by_source", "Prompt tokens by source.", (*_LABELS, "source"))
        self._sources = {source: sources.labels(*self._own, source) for source in _BY_SOURCE}
        caches = Counter("vllm:prompt_tokens_cached_by_source", "Cached tokens by cache.", (*_LABELS, "source"))
        self._caches = {source: caches.labels(*self._own, source) for source in _CACHES}
        finished = Counter("vllm:request_success", "Finished sequences.", (*_LABELS, "finished_reason"))
        self._finished = {reason: finished.labels(*self._own, reason) for reason in _REASONS}
        rejected = Counter("vllm:admission_rejections", "Requests beyond a queue limit.", ("model_name", "reason"))
        self._rejected = {
            reason: rejected.labels(self._own[0], reason) for reason in ("max_num_queued_reqs", "max_num_queued_tokens")
        }
        tokens = token_buckets(settings.context)
        self._prompt = self._histogram("request_prompt_tokens", "Prompt tokens of a request.", tokens)
        self._generated = self._histogram("request_generation_tokens", "Generated tokens of a request.", tokens)
        self._step_tokens = self._histogram("iteration_tokens_total", "Tokens of a step.", _STEP)
        self._most = self._histogram("request_max_num_generation_tokens", "Most tokens wanted of a request.", tokens)
        self._n = self._histogram("request_params_n", "Answers wanted of a request.", (1, 2, 5, 10, 20))
        self._max_tokens = self._histogram("request_params_max_tokens", "max_tokens of a request.", tokens)
        self._ttft = self._histogram("time_to_first_token_seconds", "Time to the first token.", _TTFT)
        self._itl = self._histogram("inter_token_latency_seconds", "Time between tokens.", _ITL)
        self._tpot = self._histogram("request_time_per_output_token_seconds", "Mean time between tokens.", _ITL)
        self._e2e = self._histogram("e2e_request_latency_seconds", "Time of a request.", _LATENCY)
        self._queued = self._histogram("request_queue_time_seconds", "Time waiting.", _LATENCY)
        self._inference = self._histogram("request_inference_time_seconds", "Time running.", _LATENCY)
        self._prefill = self._histogram("request_prefill_time_seconds", "Time for the prompt.", _LATENCY)
        self._decode = self._histogram("request_decode_time_seconds", "Time for the answer.", _LATENCY)
        self._preempted = self._histogram(
            "request_num_preemptions", "Preemptions of a request.", (1, 2, 3, 4, 5, 10, 20)
        )
        self._computed = self._histogram("request_prefill_kv_computed_tokens", "Prompt tokens computed.", tokens)
        _tell_cache(settings)

    def note_load(self, state: State) -> None:
        """Set the gauges."""
        waiting = len(state.waiting)
        self._gauges["num_requests_running"].set(len(state.running))
        self._gauges["num_requests_waiting"].set(waiting)
        self._waiting["capacity"].set(waiting)
        self._gauges["kv_cache_usage_perc"].set(state.pool.usage)

    def note_rejection(self, reason: str) -> None:
        """Count a request that a limit of the queue kept out."""
        self._rejected[reason].inc()

    def note_step(self, step: Step, done: Work, tokens: Many[Token], now: float) -> None:
        """Count a step and what came of it."""
        counters = self._counters
        counters["prefix_cache_queries"].inc(step.queried_tokens)
        counters["prefix_cache_hits"].inc(step.cached_tokens)
        self._caches["device"].inc(step.cached_tokens)
        counters["num_preemptions"].inc(step.preempted)
        counters["generation_tokens"].inc(len(tokens))
        counters["estimated_flops_per_gpu_total"].inc(done.flops)
        counters["estimated_read_bytes_per_gpu_total"].inc(done.read_bytes)
        counters["estimated_write_bytes_per_gpu_total"].inc(done.written_bytes)
        computed = 0
        for token in tokens:
            sequence = token.sequence
            if token.since_last is None:
                computed += self._note_prompt(sequence, now)
            else:
                self._itl.observe(token.since_last)
            if sequence.finish_reason is not None:
                self._note_end(sequence, now)
        self._step_tokens.observe(computed + len(tokens))

    def _note_prompt(self, sequence: Sequence, now: float) -> int:
        """Count a prompt that is computed, and return how many of its tokens no cache spared."""
        self._ttft.observe(now - sequence.arrival)
        cached = sequence.cached_tokens or 0
        computed = len(sequence.prompt) - cached
        self._counters["prompt_tokens"].inc(len(sequence.prompt))
        self._counters["prompt_tokens_cached"].inc(cached)
        self._sources["local_compute"].inc(computed)
        self._sources["local_cache_hit"].inc(cached)
        return computed

    def _note_end(self, sequence: Sequence, now: float) -> None:
        assert sequence.started is not None
        assert sequence.first_token is not None
        generated = len(sequence.output)
        decode = now - sequence.first_token
        self._finished[sequence.finish_reason or "error"].inc()
        self._e2e.observe(now - sequence.arrival)
        self._queued.observe(sequence.started - sequence.arrival)
        self._prefill.observe(sequence.first_token - sequence.started)
        self._inference.observe(now - sequence.started)
        self._decode.observe(decode)
        self._tpot.observe(decode / (generated - 1) if generated > 1 else 0)
        self._preempted.observe(sequence.preemptions)
        self._computed.observe(len(sequence.prompt) - (sequence.cached_tokens or 0))
        self._prompt.observe(len(sequence.prompt))
        self._generated.observe(generated)
        self._most.observe(generated)
        self._n.observe(1)
        self._max_tokens.observe(sequence.max_tokens)

    def _histogram(self, name: str, text: str, buckets: Many[float]) -> Histogram:
        return Histogram(f"vllm:{name}", text, _LABELS, buckets=buckets).labels(*self._own)


def _tell_cache(settings: Settings) -> None:
    """The size and settings of the KV cache, as the labels of a gauge."""
    limits = settings.limits
    tokens = settings.kv_blocks * limits.block_size
    told: dict[str, object] = dict.fromkeys(_NOT_SIMULATED.split(), "None") | {
        "engine": "0",
        "block_size": limits.block_size,
        "cache_dtype": "auto",
        "effective_attention_block_size": limits.block_size,
        "enable_prefix_caching": limits.prefix_caching,
        "gpu_memory_utilization": settings.gpu_utilization,
        "hash_block_size": limits.block_size,
        "kv_cache_max_concurrency": tokens / settings.context,
        "kv_cache_memory_bytes": settings.kv_cache_bytes,
        "kv_cache_size_tokens": tokens,
        "num_gpu_blocks": settings.kv_blocks,
    }
    gauge = Gauge("vllm:cache_config_info", "The KV cache.", tuple(told))
    gauge.labels(**{name: str(value) for name, value in told.items()}).set(1)


# Settings of vLLM's cache that a simulator has no use for; whoever reads the labels finds them all the same.
_NOT_SIMULATED: Final = """
_block_size_resolved cache_hit_alignment_tokens enable_mamba_shared_prefix_checkpoint is_attention_free
kv_cache_dtype_skip_layers kv_cache_layout kv_offloading_backend kv_offloading_size kv_sharing_fast_prefill
mamba_block_size mamba_cache_dtype mamba_cache_mode mamba_page_size_padded mamba_ssm_cache_dtype num_cpu_blocks
num_gpu_blocks_override prefix_cache_retention_interval prefix_caching_hash_algo prefix_match_unit replayssm_buffer_len
skip_page_size_padded sliding_window swa_bounded_replay use_kda_recoverssm use_replayssm user_specified_block_size
"""
