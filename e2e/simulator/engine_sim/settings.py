"""What an engine is told on its command line."""

from dataclasses import dataclass, field
from pathlib import Path

from engine_sim.faults import Faults
from engine_sim.scheduler import Limits
from engine_sim.step_time import Model, Slice


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it; see command_line.py for the flags."""

    model_path: str
    served_names: tuple[str, ...]
    host: str
    port: int
    context: int
    """Most tokens of prompt and answer together."""
    limits: Limits
    kv_blocks: int
    model: Model
    gpu: Slice
    shutdown_timeout: float
    """Seconds for running requests after SIGTERM; 0 leaves them without an answer, as vLLM does."""
    gpu_utilization: float = 0.92
    kv_cache_bytes: int | None = None
    most_queued_requests: int | None = None
    most_queued_tokens: int | None = None
    api_keys: tuple[str, ...] = ()
    keep_alive_interval: float = 0.0
    """Seconds between comments in a stream that is silent; 0: none."""
    forces_usage: bool = False
    tells_cached_tokens: bool = False
    tells_request_id: bool = False
    tracks_load: bool = False
    parses_tools: bool = False
    stays_after_core_death: bool = False
    logs_requests: bool = True
    seed: int = 0
    # What a simulator has beside an engine.
    speed: float = 1.0
    """How many times faster than the slice it works."""
    mean_answer: float = 128.0
    """Tokens that the model says before it ends by itself, on average."""
    faults: Faults = field(default_factory=Faults)
    fault_route: bool = False
    """Whether /simulator/faults is there."""
    journal: Path | None = None
    """Where to note which requests come and go."""
