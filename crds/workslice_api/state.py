"""The document that every router serves at /state on its admin port and that the operator scales on.

Of its parts there are as many as replicas: with slots they take a quarter of the memory of models.
"""

from typing import Final

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

from workslice_api.base import KubeModel

_AS_MODELS: Final = ConfigDict(
    alias_generator=to_camel, populate_by_name=True, extra="ignore", use_attribute_docstrings=True
)


@dataclass(frozen=True, slots=True, config=_AS_MODELS)
class EngineLoadState:
    """What an engine last said of its load, whoever sent it."""

    running: int
    """Sequences in its batches."""
    waiting: int
    """Sequences that wait for a place in them."""
    kv_cache_usage: float | None = None
    """Share of its KV cache in use, 0 to 1."""


@dataclass(frozen=True, slots=True, config=_AS_MODELS)
class ReplicaState:
    """One replica as this router sees it."""

    uid: str
    """UID of the engine pod (its address when pools come from a static file)."""
    address: str
    """host:port."""
    in_flight: int = 0
    """Requests that this router has running there."""
    outstanding_tokens: int = 0
    """Estimated tokens of those requests."""
    dispatch_cap: int | None = None
    """How many of its requests this router lets run there at once: the profile's workspace.maxConcurrent, or fewer when the KV cache holds
    fewer of the usual size or the class's slo allows fewer, or when the pool's queue.maxInFlightPerReplica says so; then its part of that
    where other routers use the replica as well."""
    ready: bool = True
    """The EndpointSlice calls it ready."""
    draining: bool = False
    """This router sends it nothing new: the pod is terminating or named in the pool's status.draining."""
    ejected: bool = False
    """This router has seen it fail and gives it a rest."""
    kv_tokens: int | None = None
    """Tokens that its KV cache holds; unknown until the engine has said so."""
    engine: EngineLoadState | None = None
    """None while its load is unknown: it has not answered for some seconds."""


@dataclass(frozen=True, slots=True, config=_AS_MODELS)
class PoolState:
    """One pool as this router sees it."""

    queued: int = 0
    """Requests that wait in this router for this pool."""
    running: int = 0
    """Requests that this router has running on the pool's replicas."""
    queued_tokens: int = 0
    """Estimated tokens of the waiting requests."""
    oldest_wait_seconds: float = 0.0
    """How long the first of them has waited."""
    asked_total: int = 0
    """Requests that this router has sent to its replicas, or elsewhere because it had none, since the router started."""
    rejected_total: int = 0
    """Requests refused with 429 for want of room here since the router started, each at the pool that its refusal names."""
    replicas: tuple[ReplicaState, ...] = ()
    """Replicas in rotation or leaving it."""


class RouterState(KubeModel):
    """What one router knows. The operator adds up the numbers of all routers; a missing pool counts as unknown, never as zero."""

    version: int = Field(default=1)
    """Version of this document."""
    router: str = ""
    """Name of the router (its pod)."""
    synced: bool = False
    """The router has seen all pools at least once."""
    asked_in_vain: int = 0
    """Requests since the router started for pools that sleep (scaled to zero for want of requests). `/asked-in-vain?after=N&seconds=S` on
    the same port answers as soon as this is not N, or after S seconds."""
    pools: dict[str, PoolState] = {}
    """By namespace/name."""
