"""What engines on one GPU printed at start, in public logs: the numbers that estimates of memory are held against.

`fitted` marks the logs that the constants of sizing.py were fitted to; the others were only compared. Where a log did not print a flag,
the engine's default for its version and GPU stands.
"""

from dataclasses import dataclass

from workslice_operator.sizing import EngineSettings, ModelShape

LLAMA_3_1_8B = ModelShape(8_030_261_248, 32, 4096, 14336, 8, 128, 128_256)
LLAMA_3_3_70B = ModelShape(70_553_706_496, 80, 8192, 28672, 8, 128, 128_256)
LLAMA_3_2_3B = ModelShape(3_212_749_824, 28, 3072, 8192, 8, 128, 128_256, tied_embeddings=True)
QWEN3_0_6B = ModelShape(596_049_920, 28, 1024, 3072, 8, 128, 151_936, tied_embeddings=True)
QWEN3_4B = ModelShape(4_022_468_096, 36, 2560, 9728, 8, 128, 151_936, tied_embeddings=True)
QWEN3_14B = ModelShape(14_768_307_200, 40, 5120, 17408, 8, 128, 151_936)
QWEN3_32B = ModelShape(32_762_123_264, 64, 5120, 25600, 8, 128, 151_936)
QWEN2_5_0_5B = ModelShape(494_032_768, 24, 896, 4864, 2, 64, 151_936, tied_embeddings=True)
QWEN2_5_7B = ModelShape(7_615_616_512, 28, 3584, 18944, 4, 128, 152_064)
QWEN1_5_7B = ModelShape(7_721_324_544, 32, 4096, 11008, 32, 128, 151_936)
QWEN1_5_14B = ModelShape(14_167_290_880, 40, 5120, 13696, 40, 128, 152_064)
GEMMA_3_1B = ModelShape(
    999_885_952, 26, 1152, 6912, 1, 256, 262_144, tied_embeddings=True, sliding_window=512, sliding_layers=22
)
GPT_OSS_20B = ModelShape(
    20_914_757_184,
    24,
    2880,
    2880,
    8,
    64,
    201_088,
    sliding_window=128,
    sliding_layers=12,
    unquantized_parameters=1_804_459_584,
)
GPT_OSS_120B = ModelShape(
    116_829_156_672,
    36,
    2880,
    2880,
    8,
    64,
    201_088,
    sliding_window=128,
    sliding_layers=18,
    unquantized_parameters=2_167_371_072,
)
PHI_4 = ModelShape(14_659_507_200, 40, 5120, 17920, 10, 128, 100_352)

_LLM_D = "https://github.com/llm-d/llm-d-benchmark/blob/main/config_explorer/empirical-vllm-memory-results.md"
_CAPSTONE = "blog post 'LLM 최적화 실전 프로젝트 — 단일 인스턴스 처리량 최대화' (2026-09-06), sections 4 to 6"


@dataclass(frozen=True)
class Started:
    """An engine that came up, and what it printed: one of the three numbers at least."""

    model: str
    gpu: str
    memory_gib: float
    shape: ModelShape
    settings: EngineSettings
    source: str
    fitted: bool = False
    weights_gib: float | None = None
    kv_gib: float | None = None
    """Available KV cache memory."""
    kv_tokens: int | None = None
    """GPU KV cache size, or GPU blocks of 16 tokens."""
    concurrency: float | None = None
    """Maximum concurrency for max_tokens per request."""


@dataclass(frozen=True)
class Cache:
    """What an engine made of the memory that it had left for its KV cache."""

    model: str
    shape: ModelShape
    settings: EngineSettings
    kv_gib: float
    concurrency: float
    source: str


@dataclass(frozen=True)
class Refused:
    """An engine that did not start for want of memory."""

    model: str
    gpu: str
    memory_gib: float
    shape: ModelShape
    settings: EngineSettings
    said: str
    source: str


STARTED = (
    Started(
        "meta-llama/Llama-3.1-8B-Instruct",
        "H100",
        79.18,
        LLAMA_3_1_8B,
        EngineSettings("0.11.0", 16_000, 1024, 8192, 0.9),
        _LLM_D,
        fitted=True,
        weights_gib=14.99,
        kv_gib=51.38,
    ),
    Started(
        "Qwen/Qwen3-0.6B",
        "H100",
        79.18,
        QWEN3_0_6B,
        EngineSettings("0.11.0", 16_000, 1024, 8192, 0.9),
        _LLM_D,
        fitted=True,
        weights_gib=1.12,
        kv_gib=64.45,
    ),
    Started(
        "Qwen/Qwen3-32B",
        "H100",
        79.18,
        QWEN3_32B,
        EngineSettings("0.11.0", 16_000, 1024, 8192, 0.9),
        _LLM_D,
        fitted=True,
        weights_gib=61.03,
        kv_gib=4.45,
    ),
    Started(
        "meta-llama/Llama-3.1-8B-Instruct",
        "RTX 3090",
        23.58,
        LLAMA_3_1_8B,
        # Without chunked prefill this version profiles a step of the whole context.
        EngineSettings("0.6.4", 20_000, 256, 20_000, 0.9),
        "https://github.com/vllm-project/vllm/issues/10517",
        fitted=True,
        weights_gib=14.99,
        kv_gib=3.81,
        kv_tokens=1952 * 16,
        concurrency=1.56,
    ),
    Started(
        "Qwen/Qwen2.5-7B-Instruct-AWQ",
        "RTX 4080",
        15.99,
        QWEN2_5_7B,
        EngineSettings("0.26.0", 32_768, 256, 2048, 0.9, quantization="awq"),
        "https://github.com/akiyax/kvcache-lab/blob/main/docs/phase1-baseline.md",
        fitted=True,
        weights_gib=5.29,
        kv_gib=8.0,
        kv_tokens=149_712,
        concurrency=4.57,
    ),
    Started(
        "Qwen/Qwen3-14B",
        "L40S",
        44.39,
        QWEN3_14B,
        EngineSettings("0.28.0", 40_960, 256, 2048, 0.92),
        _CAPSTONE,
        fitted=True,
        weights_gib=27.52,
        kv_gib=11.57,
        kv_tokens=75_824,
        concurrency=1.85,
    ),
    Started(
        "Qwen/Qwen3-14B-AWQ",
        "L40S",
        44.39,
        QWEN3_14B,
        EngineSettings("0.28.0", 40_960, 256, 2048, 0.92, quantization="awq"),
        _CAPSTONE,
        weights_gib=9.44,
        kv_gib=29.63,
        kv_tokens=194_192,
        concurrency=4.74,
    ),
    Started(
        "Qwen/Qwen3-14B-AWQ",
        "L40S",
        44.39,
        QWEN3_14B,
        EngineSettings("0.28.0", 1024, 8, 8192, 0.95, quantization="awq"),
        _CAPSTONE,
        weights_gib=9.44,
        kv_gib=31.02,
        kv_tokens=203_264,
        concurrency=198.5,
    ),
    Started(
        "Qwen3-4B-AWQ",
        "RTX 4090 (48 GB)",
        47.37,
        QWEN3_4B,
        EngineSettings("0.30.0", 2048, 256, 2048, 0.85, dtype="float16", quantization="awq"),
        "https://github.com/vllm-project/vllm/pull/57047",
        kv_gib=36.88,
        kv_tokens=268_560,
        concurrency=131.13,
    ),
    Started(
        "kaitchup/Phi-4-AutoRound-GPTQ-4bit",
        "A100 80 GB",
        79.25,
        PHI_4,
        EngineSettings("0.6.5", 2048, 256, 2048, 0.15, quantization="gptq"),
        "https://github.com/xinyuwei-david/david-share/blob/master/Deep-Learning/Phi4/readme.md",
        weights_gib=8.51,
        kv_gib=2.18,
        kv_tokens=715 * 16,
        concurrency=5.59,
    ),
    Started(
        "Qwen/Qwen2.5-0.5B-Instruct",
        "24 GB GeForce",
        23.99,
        QWEN2_5_0_5B,
        EngineSettings("0.27.1", 2048, 256, 2048, 0.85),
        "https://github.com/enginrect/llmso/blob/main/labs/environment-setup.md",
        weights_gib=0.93,
        kv_gib=18.65,
        kv_tokens=1_629_520,
    ),
    Started(
        "meta-llama/Llama-3.1-8B-Instruct",
        "L4",
        22.03,
        LLAMA_3_1_8B,
        EngineSettings("0.10.0", 8192, 256, 8192, 0.9),
        "https://docs.ray.io/en/latest/serve/tutorials/deployment-serve-llm/small-size-llm/README.html",
        concurrency=3.53,
    ),
    Started(
        "openai/gpt-oss-20b",
        "H100",
        79.18,
        GPT_OSS_20B,
        EngineSettings("0.11.0", 16_000, 1024, 8192, 0.9, quantization="mxfp4"),
        _LLM_D,
        fitted=True,
        weights_gib=13.47,
        kv_gib=50.28,
    ),
    Started(
        "openai/gpt-oss-20b",
        "A100 80 GB",
        79.25,
        GPT_OSS_20B,
        EngineSettings("0.19.0", 131_072, 256, 2048, 0.65, quantization="mxfp4"),
        "https://myoceane.fr/index.php/ai-vllm-a100-gemma-4/",
        weights_gib=13.72,
        kv_gib=36.56,
    ),
    Started(
        "google/gemma-3-1b-it",
        "RTX 5060 Ti",
        15.93,
        GEMMA_3_1B,
        EngineSettings("0.22.0", 8192, 256, 2048, 0.85),
        "https://github.com/jethac/dgx-spark-hijinks/blob/main/results/p520_gemma3_1b_serving_20260612/summary.md",
        kv_tokens=943_654,
    ),
)

CACHES = (
    Cache(
        "google/gemma-3-1b-it",
        GEMMA_3_1B,
        EngineSettings("0.13.0", 2048, 256, 8192, 0.95),
        kv_gib=25.39,
        concurrency=461.21,
        source="https://github.com/eole-nlp/eole/blob/main/benchmarks/genai/results.md",
    ),
    Cache(
        "meta-llama/Llama-3.1-8B-Instruct",
        LLAMA_3_1_8B,
        EngineSettings("0.6.4", 20_000, 256, 20_000, 0.9),
        kv_gib=3.81,
        concurrency=1.56,
        source="https://github.com/vllm-project/vllm/issues/10517",
    ),
)

REFUSED = (
    Refused(
        "meta-llama/Llama-3.1-8B-Instruct",
        "RTX 3090",
        23.58,
        LLAMA_3_1_8B,
        EngineSettings("0.6.4", 29_000, 256, 29_000, 0.9),
        "max seq len (29000) is larger than the maximum number of tokens that can be stored in KV cache (23648)",
        "https://github.com/vllm-project/vllm/issues/10517",
    ),
    Refused(
        "Qwen/Qwen3-32B",
        "H100",
        79.18,
        QWEN3_32B,
        EngineSettings("0.11.0", 32_000, 1024, 8192, 0.9),
        "started with 16,000 tokens of context, failed with 32,000",
        _LLM_D,
    ),
    Refused(
        "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
        "H100",
        79.18,
        LLAMA_3_3_70B,
        EngineSettings("0.11.0", 16_000, 1024, 8192, 0.9, quantization="fp8"),
        "No available memory for the cache blocks (available KV cache memory -1.44 GiB)",
        _LLM_D,
    ),
    Refused(
        "Qwen2.5-7B in 4 bits",
        "RTX 4060",
        8.0,
        QWEN2_5_7B,
        EngineSettings("0.7.3", 4096, 256, 4096, 0.7, quantization="awq"),
        "the rest of the memory reserved for KV Cache is -1.05GiB",
        "https://github.com/vllm-project/vllm/issues/13882",
    ),
    Refused(
        "Qwen3-4B",
        "RTX 5080",
        15.92,
        QWEN3_4B,
        EngineSettings("0.18.0", 40_960, 256, 2048, 0.9),
        "5.62 GiB KV cache is needed, which is larger than the available KV cache memory (4.89 GiB)",
        "https://github.com/vllm-project/vllm/issues/38516",
    ),
    Refused(
        "qwen/Qwen1.5-7B-Chat-GPTQ-Int4",
        "RTX 3090",
        23.69,
        QWEN1_5_7B,
        EngineSettings("0.3.0", 32_768, 256, 32_768, 0.9, quantization="gptq"),
        "max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (24320)",
        "https://github.com/QwenLM/Qwen3/issues/16",
    ),
    Refused(
        "Qwen1.5-14B-Chat",
        "V100 32 GB",
        31.74,
        QWEN1_5_14B,
        EngineSettings("0.3.0", 32_768, 256, 32_768, 0.95, dtype="float16"),
        "No available memory for the cache blocks",
        "https://github.com/QwenLM/Qwen3/issues/12",
    ),
    Refused(
        "openai/gpt-oss-120b",
        "H100",
        79.19,
        GPT_OSS_120B,
        EngineSettings("0.11.0", 131_072, 1024, 1024, 0.95, quantization="mxfp4"),
        "Available KV cache memory: 1.71 GiB, which one request exceeds",
        "https://github.com/vllm-project/vllm/issues/27508",
    ),
    Refused(
        "openai/gpt-oss-120b",
        "H100",
        79.19,
        GPT_OSS_120B,
        EngineSettings("0.10.1", 131_072, 1024, 8192, 0.9, quantization="mxfp4"),
        "Available KV cache memory: -2.14 GiB",
        "https://github.com/vllm-project/vllm/issues/23278",
    ),
)
