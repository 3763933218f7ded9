"""Which flags the vLLM version in the engine image knows, and what it calls their values."""

import re
from typing import Final

_SINCE: Final[dict[str, tuple[int, int, int]]] = {
    "--scheduling-policy": (0, 6, 3),
    "--long-prefill-token-threshold": (0, 7, 3),
    "--kv-cache-memory-bytes": (0, 10, 2),
    "--shutdown-timeout": (0, 18, 0),
}

_OWN_NAMES_FOR_LOADING: Final = (0, 20, 0)
"""Since then quantizing while loading has names of its own, and `fp8` means checkpoints that are quantized: others are refused."""


def parse_version(text: str) -> tuple[int, int, int]:
    """Major, minor and patch of a version such as 0.33.0, 0.33 or 0.10.2+cpu.

    Raises:
        ValueError: it does not begin with two numbers.
    """
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if match is None:
        raise ValueError(f"not a version of vLLM: {text!r}")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def knows_flag(version: str, flag: str) -> bool:
    """Whether that vLLM accepts the flag; flags that every supported version knows are not listed here."""
    return parse_version(version) >= _SINCE.get(flag, (0, 0, 0))


def quantization_method(version: str, wanted: str) -> str:
    """The value of --quantization that quantizes a plain checkpoint to `wanted` while that vLLM loads it."""
    return f"{wanted}_per_tensor" if parse_version(version) >= _OWN_NAMES_FOR_LOADING else wanted
