"""What an engine's /metrics page says of its load, read from its bytes. Pure.

A series that is missing or makes no sense is unknown, never zero: an idle engine says 0 itself.
"""

import math
import re
from dataclasses import dataclass
from typing import Final

_RUNNING: Final = (b"vllm:num_requests_running",)
_WAITING: Final = (b"vllm:num_requests_waiting",)
_KV_USED: Final = (b"vllm:kv_cache_usage_perc", b"vllm:gpu_cache_usage_perc")  # the latter until vLLM 0.9
_CACHE: Final = b"\nvllm:cache_config_info{"
_SAMPLE: Final = re.compile(rb"\n[\w:]+(?:\{[^\n]*\})?[ \t]+(\S+)")
_TOKENS: Final = re.compile(rb'[{,]kv_cache_size_tokens="(\d{1,15})"')
_BLOCKS: Final = re.compile(rb'[{,]num_gpu_blocks="(\d{1,15})"')
_BLOCK_SIZE: Final = re.compile(rb'[{,]block_size="(\d{1,15})"')


@dataclass(frozen=True, slots=True)
class EngineGauges:
    """One engine at one moment; its cores together, if it has several."""

    running: int
    """Sequences in its batches, whoever sent them."""
    waiting: int
    kv_used: float | None
    """Share of the KV cache in use, 0 to 1, of the fullest core."""
    kv_tokens: int | None
    """Tokens that the KV cache holds."""


def read_gauges(page: bytes) -> EngineGauges | None:
    """The gauges on a page; None when it does not say how many requests the engine has."""
    page = b"\n" + page
    running, waiting = _count(page, _RUNNING), _count(page, _WAITING)
    if running is None or waiting is None:
        return None
    used = _values(page, _KV_USED)
    return EngineGauges(running, waiting, min(1.0, max(used)) if used else None, _kv_tokens(page))


def _count(page: bytes, names: tuple[bytes, ...]) -> int | None:
    values = _values(page, names)
    total = sum(values)
    return int(total) if values and total == int(total) else None


def _values(page: bytes, names: tuple[bytes, ...]) -> list[float]:
    """All values of the first of the names that is there; none if one of them is not a number from 0 on."""
    for name in names:
        values = []
        at = _series(page, name, 0)
        while at >= 0:
            sample = _SAMPLE.match(page, at)
            value = _number(sample[1]) if sample is not None else None
            if value is None:
                return []
            values.append(value)
            at = _series(page, name, at + 1)
        if values:
            return values
    return []


def _series(page: bytes, name: bytes, start: int) -> int:
    """Where the next sample of exactly this name is; finding it is a search for fixed bytes, which costs next to nothing."""
    at = start
    while (at := page.find(b"\n" + name, at)) >= 0:
        if page[at + len(name) + 1 : at + len(name) + 2] in (b"{", b" ", b"\t"):
            return at
        at += 1
    return -1


def _number(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _kv_tokens(page: bytes) -> int | None:
    total, at = 0, -1
    while (at := page.find(_CACHE, at + 1)) >= 0:
        end = page.find(b"\n", at + 1)
        line = page[at : end if end >= 0 else len(page)]
        tokens, blocks, size = _TOKENS.search(line), _BLOCKS.search(line), _BLOCK_SIZE.search(line)
        if tokens is not None:
            total += int(tokens[1])
        elif blocks is not None and size is not None:
            total += int(blocks[1]) * int(size[1])
    return total or None
