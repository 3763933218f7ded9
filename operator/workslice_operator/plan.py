"""What to do about a pool: the one decision of the operator, pure. The same input gives the same bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from workslice_api.names import Reason
from workslice_api.pool import WorkspacePoolStatus
from workslice_operator.installation import Installation
from workslice_operator.observed import Observed

RESYNC_SECONDS: Final = 300.0


@dataclass(frozen=True)
class EventNote:
    """An Event to write about the pool. It is noted only when the status that it speaks of changes."""

    type: Literal["Normal", "Warning"]
    reason: Reason
    message: str


@dataclass(frozen=True)
class Plan:
    """What the shell carries out, in this order: apply, events, status."""

    apply: tuple[Mapping[str, Any], ...]
    """Manifests for server-side apply with FIELD_MANAGER, forced."""
    status: WorkspacePoolStatus
    """The whole new status. Anything but `queue_depth` that differs must be written at once: it holds the scaler's memory."""
    events: tuple[EventNote, ...]
    requeue_after: float
    """Seconds until the pool must be looked at again even if nothing happens."""


def plan(observed: Observed, installation: Installation, now: datetime) -> Plan:
    """Decide. `now` is timezone-aware."""
    raise NotImplementedError


def status_after_failed_apply(status: WorkspacePoolStatus, message: str, now: datetime) -> WorkspacePoolStatus:
    """The planned status when the API refused a manifest: Degraded with the API's message."""
    raise NotImplementedError
