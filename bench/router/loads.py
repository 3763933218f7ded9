"""The kinds of traffic, and what the router may cost under each."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Load:
    """One kind of traffic."""

    name: str
    arguments: tuple[str, ...]
    per: Literal["requests", "tokens"]
    """What the CPU time is divided by."""
    times_nginx: float | None = None
    """Most CPU that the router may take, as a multiple of nginx's."""
    times_rust: float | None = None
    """The same of vllm-router's."""
    most_us: float | None = None
    """The same in microseconds."""
    added_first_byte_ms: float | None = None
    """Most that the router may add to the median time to the first byte."""


ANSWERS = Load("answers to 500 characters", (), "requests", times_nginx=2.0, times_rust=0.85)
LOADS = (
    ANSWERS,
    Load(
        "64 streams of 100 tokens at once",
        ("--stream", "--connections", "64", "--tokens", "100"),
        "tokens",
        times_rust=0.25,
    ),
    Load(
        "400 streams, a token every 20 ms",
        ("--stream", "--connections", "400", "--tokens", "50", "--pause", "20"),
        "tokens",
        times_rust=1.0,
    ),
    Load(
        "64 streams, a token every 20 ms",
        ("--stream", "--connections", "64", "--tokens", "50", "--pause", "20"),
        "tokens",
        added_first_byte_ms=1.0,
    ),
    Load("prompts of 1 MB", ("--characters", "1000000", "--connections", "4"), "requests", most_us=1200),
)
