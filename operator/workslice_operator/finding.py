"""The content of a condition before it has a type and a time."""

from dataclasses import dataclass

from workslice_api.names import Reason


@dataclass(frozen=True)
class Finding:
    """Status (None is Unknown), reason and message."""

    status: bool | None
    reason: Reason
    message: str
