"""What goes wrong on purpose. Pure."""

from pydantic import BaseModel, ConfigDict, Field


class Faults(BaseModel):
    """Faults of one engine; without any it works. Counts of tokens are over all answers, from when the fault was set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start_seconds: float = Field(default=0.0, ge=0, le=86_400)
    """Nothing listens for this long after the start."""
    core_dies_after: int | None = Field(default=None, ge=0)
    """Tokens after which the engine behind the server dies: started streams end with an error and [DONE], others get 500."""
    process_dies_after: int | None = Field(default=None, ge=0)
    """Tokens after which the whole process is gone, as by SIGKILL."""
    hangs_after: int | None = Field(default=None, ge=0)
    """Tokens after which no further one comes; the server itself answers on."""
    reset_after: int | None = Field(default=None, ge=0)
    """Bytes of a response's body after which its connection is reset."""
    split_writes: int | None = Field(default=None, ge=1)
    """Most bytes that go out at once; the rest follows a moment later."""
    content_length_off_by: int = 0
    """Bytes that responses are longer (or, below 0, shorter) by their header than they are."""
