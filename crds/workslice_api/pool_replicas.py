"""Single replicas that a pool's status tells of: one that started, and those that are asked to go."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from workslice_api.base import KubeModel


class ReplicaStart(KubeModel):
    """How long one replica took to start."""

    since: Annotated[str, Field(max_length=40, json_schema_extra={"format": "date-time"})]
    """When it got its slice (RFC 3339)."""
    seconds: int
    """From there until it was ready."""

    @property
    def time(self) -> datetime:
        """`since`, with its zone."""
        return datetime.fromisoformat(self.since)


class DrainMark(KubeModel):
    """One replica that is asked to go and finishes its requests first."""

    name: Annotated[str, Field(max_length=253)]
    """Its pod."""
    uid: Annotated[str, Field(max_length=64)]
    """UID of its pod."""
    since: Annotated[str, Field(max_length=40, json_schema_extra={"format": "date-time"})]
    """Since when (RFC 3339): drain.timeout counts from here."""
