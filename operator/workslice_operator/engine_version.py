"""Which flags the vLLM version in the engine image knows."""

import re
from typing import Final

_SINCE: Final[dict[str, tuple[int, int, int]]] = {
    "--scheduling-policy": (0, 6, 3),
    "--long-prefill-token-threshold": (0, 7, 3),
    "--kv-cache-memory-bytes": (0, 10, 2),
    "--shutdown-timeout": (0, 18, 0),
}


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
