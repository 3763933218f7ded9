"""How the engine's KV cache is shared out in blocks, and how many of them one request needs. Pure.

The rule is the one of get_kv_cache_groups and SlidingWindowSpec in vLLM (vllm/v1/core/kv_cache_utils.py, vllm/v1/kv_cache_interface.py),
for models whose layers all cache equally much of a token. Layers are divided into groups of equal size that attend alike; a block holds
some tokens for one group, and each request takes its blocks for every group.
"""

import math
from dataclasses import dataclass
from typing import Final

BLOCK_TOKENS: Final = 16
"""Tokens in a block, unless the engine is told otherwise."""
_ALMOST_EQUAL: Final = 1.5
"""Layers of both kinds make groups of the larger number where it is less than so many times the smaller one, else of the smaller one."""


@dataclass(frozen=True)
class CacheBlocks:
    """How one model's cache is shared out."""

    bytes: int
    """Of a block."""
    whole_groups: int
    """Groups of layers that attend to the whole context."""
    window_groups: int
    """Groups of layers that attend to a window only."""
    kept_tokens: int
    """What the cache holds of a long request for a layer with a window."""

    def needed(self, tokens: int) -> int:
        """Blocks of a request of so many tokens. A window may begin inside a block, which takes another one."""
        whole = math.ceil(tokens / BLOCK_TOKENS)
        window = math.ceil(min(tokens, self.kept_tokens) / BLOCK_TOKENS) + 1
        return self.whole_groups * whole + self.window_groups * window

    def longest(self, blocks: int, below: int) -> int:
        """The longest request, of less than `below` tokens, that has room in so many blocks; 0 when none has."""
        fits, too_long = 0, below
        while too_long - fits > 1:
            middle = (fits + too_long) // 2
            fits, too_long = (middle, too_long) if self.needed(middle) <= blocks else (fits, middle)
        return fits


def cache_blocks(layers: int, window_layers: int, kept_tokens: int, token_bytes: int) -> CacheBlocks:
    """The blocks of a model that caches `token_bytes` of a token in each of its layers, of which some attend to a window."""
    whole_layers = layers - window_layers
    fewer, more = sorted((whole_layers, window_layers))
    size = more if more < fewer * _ALMOST_EQUAL or not fewer else fewer
    return CacheBlocks(
        bytes=size * BLOCK_TOKENS * token_bytes,
        whole_groups=math.ceil(whole_layers / size),
        window_groups=math.ceil(window_layers / size),
        kept_tokens=kept_tokens,
    )
