"""What is compared: engines on two cores, and who sends which request to which of them."""

from dataclasses import dataclass, replace
from typing import Any

MODEL = "slow"
CONTEXT, SHORT_CONTEXT = 8192, 2048
"""Tokens of prompt and answer together that an engine holds."""
ENGINES = 2
"""In every row; each has one core."""


@dataclass(frozen=True)
class Pool:
    """A pool of the bench with the settings of its engines."""

    name: str
    replicas: int
    context: int
    kv_mebibytes: int
    batched_tokens: int
    long_prefill_threshold: int
    first_token: str
    """The class's service level: a duration."""
    pace: str

    def spec(self) -> dict[str, Any]:
        """Fields of the WorkspacePool."""
        level = {"timeToFirstToken": self.first_token, "timePerOutputToken": self.pace}
        return {
            "requestClass": {"name": self.name, "maxTotalTokens": self.context, "slo": level},
            "replicas": self.replicas,
            "queue": {"maxDepth": 256, "maxWait": "120s"},
        }


@dataclass(frozen=True)
class Engines:
    """Pools that run at the same time."""

    name: str
    pools: tuple[Pool, ...]

    @property
    def kv_mebibytes(self) -> int:
        return sum(pool.kv_mebibytes * pool.replicas for pool in self.pools)


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    what: str
    engines: Engines
    routed: bool
    """Through Workslice's router; else the load goes to the replica with the fewest requests in flight, without a proxy between."""


def _shared(name: str, batched_tokens: int, long_prefill_threshold: int) -> Engines:
    pool = Pool("shared", ENGINES, CONTEXT, 512, batched_tokens, long_prefill_threshold, "500ms", "50ms")
    return Engines(name, (pool,))


def _split(name: str, batched_tokens: int, long_prefill_threshold: int) -> Engines:
    short = Pool("short", 1, SHORT_CONTEXT, 256, batched_tokens, long_prefill_threshold, "500ms", "50ms")
    long = replace(short, name="long", context=CONTEXT, kv_mebibytes=768, first_token="12s", pace="100ms")
    return Engines(name, (short, long))


DEFAULTS = (2048, 0)
"""vLLM's own: tokens of a step, and no threshold for long prompts."""
TUNED = (512, 128)
WORKSLICE_DEFAULTS = (2048, 512)
WHOLE_PROMPTS = (8192, 0)

_TUNED = _shared("tuned", *TUNED)
ROWS = (
    Row("A", "two shared replicas, vLLM's defaults, least requests", _shared("plain", *DEFAULTS), routed=False),
    Row("A+", "two shared replicas, tuned, least requests", _TUNED, routed=False),
    Row("A+W", "two shared replicas, tuned, Workslice with one class", _TUNED, routed=True),
    Row("B", "a replica for each class, Workslice's defaults", _split("split", *WORKSLICE_DEFAULTS), routed=True),
    Row("C", "a replica for each class, whole prompts in a step", _split("whole", *WHOLE_PROMPTS), routed=True),
)
