"""Base of every API model: camelCase on the wire, frozen, field docstrings become `kubectl explain` text."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

LIVE = "Live: takes effect without touching engines."
ROLLS = "Rolls: replaces the engine pods."
IMMUTABLE = "Immutable: cannot be changed, only a new object can have another value."


class KubeModel(BaseModel):
    """One object of the API. Unknown fields are ignored on reading: strictness is the CRD schema's job."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    def to_wire(self) -> dict[str, Any]:
        """JSON-ready dict as the API server stores it: aliases, nothing unset."""
        return self.model_dump(by_alias=True, exclude_none=True, mode="json")


Name = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""A DNS label, as Kubernetes uses for object names."""


class ObjectMeta(KubeModel):
    """The part of an object's metadata that Workslice reads."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Condition(KubeModel):
    """A Kubernetes condition; `message` says what to do next when the status is not the wanted one."""

    type: Annotated[str, Field(max_length=64)]
    """Type of the condition."""
    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=128)]
    """One word for programs."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """A sentence for people: what is the matter and what to do next."""
    last_transition_time: Annotated[str, Field(max_length=40, json_schema_extra={"format": "date-time"})]
    """When the status last changed (RFC 3339)."""
    observed_generation: int = 0
    """Generation of the object that this condition speaks of."""
