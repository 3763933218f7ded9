"""How many requests an engine has and how large its KV cache is, read from its /metrics page. Pure."""

import re
from typing import Final

from workslice_operator.observed import EngineLoad

_SAMPLE: Final = re.compile(
    r"^vllm:num_requests_(running|waiting)(?:\{[^}\n]*\})?[ \t]+([0-9.eE+]+|NaN)(?:[ \t]+-?\d+)?[ \t]*$", re.MULTILINE
)

_CACHE: Final = re.compile(r"^vllm:cache_config_info\{([^\n]*)\}", re.MULTILINE)


def engine_load(page: str) -> EngineLoad | None:
    """The sum over the engine's cores; None (unknown) unless both numbers are there and whole."""
    sums = {"running": 0.0, "waiting": 0.0}
    seen = set()
    for name, text in _SAMPLE.findall(page):
        try:
            sums[name] += float(text)
        except ValueError:
            return None
        seen.add(name)
    if seen != sums.keys() or any(total != total or total % 1 for total in sums.values()):
        return None
    return EngineLoad(int(sums["running"]), int(sums["waiting"]), _kv_tokens(page))


def _kv_tokens(page: str) -> int | None:
    """Of several cores the smallest cache; the product of its blocks where an older engine tells nothing else."""
    found = []
    for labels in _CACHE.findall(page):
        whole, blocks, block = (
            _number(labels, name) for name in ("kv_cache_size_tokens", "num_gpu_blocks", "block_size")
        )
        found.append(whole or (blocks or 0) * (block or 0))
    return min(found, default=0) or None


def _number(labels: str, name: str) -> int | None:
    match = re.search(rf'(?:^|,){name}="(\d{{1,15}})"', labels)
    return int(match[1]) if match else None
