"""How long one step of an engine takes on a slice of a GPU: a roofline of computing and reading memory. Pure.

The constants describe an H100 and an 8-billion-parameter model with 8-bit weights. They are estimates, not measurements of a MIG
slice: compare runs of the simulator with each other, not with hardware.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

GIGA: Final = 1e9
_FLOPS: Final = 989e12 * 0.45
"""What a whole H100 computes in a second, at the share of its peak that prefill reaches."""
_BYTES: Final = 3.35e12 * 0.75
"""What it reads from memory in a second, at the share that decoding reaches."""
_OVERHEAD_SECONDS: Final = 2.5e-3
_MULTIPROCESSORS: Final = 132


@dataclass(frozen=True, slots=True)
class Slice:
    """What one slice of a GPU can do."""

    flops: float
    """A second."""
    bandwidth: float
    """Bytes a second."""
    memory: float
    """Bytes."""


def _slice(multiprocessors: int, memory_share: float, gigabytes: float) -> Slice:
    return Slice(_FLOPS * multiprocessors / _MULTIPROCESSORS, _BYTES * memory_share, gigabytes * GIGA)


SLICES: Final = {
    "1g.10gb": _slice(16, 1 / 8, 10),
    "1g.20gb": _slice(16, 1 / 4, 20),
    "2g.20gb": _slice(32, 1 / 4, 20),
    "3g.40gb": _slice(60, 1 / 2, 40),
    "4g.40gb": _slice(64, 1 / 2, 40),
    "7g.80gb": _slice(132, 1, 80),
}
"""The slices of an H100 with 80 GB, by MIG profile."""


@dataclass(frozen=True, slots=True)
class Model:
    """What decides a model's cost."""

    parameters: float
    weight_bytes: float
    kv_bytes_per_token: int
    layers: int
    hidden: int


LLAMA_8B: Final = Model(8.0 * GIGA, 8.5 * GIGA, 128 * 1024, 32, 4096)


@dataclass(frozen=True, slots=True)
class Work:
    """What a step computes and moves."""

    flops: float
    read_bytes: float
    written_bytes: float


def work(model: Model, shares: Iterable[tuple[int, int]]) -> Work:
    """The work of a step; each share is (tokens to compute, tokens before them)."""
    tokens = read = 0
    attended = 0.0
    for new, before in shares:
        tokens += new
        attended += new * (before + (new + 1) / 2)
        read += before + new
    return Work(
        flops=2 * model.parameters * tokens + 4 * model.layers * model.hidden * attended,
        read_bytes=model.weight_bytes + model.kv_bytes_per_token * read,
        written_bytes=float(model.kv_bytes_per_token * tokens),
    )


def seconds(gpu: Slice, done: Work) -> float:
    """How long the work takes."""
    return max(done.flops / gpu.flops, done.read_bytes / gpu.bandwidth) + _OVERHEAD_SECONDS
