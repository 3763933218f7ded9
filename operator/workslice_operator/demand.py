"""Demand from the routers, without I/O: which routers there are, the sum of what they report, which pools it concerns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from workslice_api.names import ROUTER_ADMIN_PORT_NAME
from workslice_api.pool import Scaling, WorkspacePoolStatus
from workslice_api.state import RouterState
from workslice_operator.idle import may_sleep, wakes
from workslice_operator.observed import QueueSignal
from workslice_operator.scaling import bounds
from workslice_operator.scheduled_minimum import scheduled_minimum
from workslice_operator.wanted_replicas import wanted_replicas
from workslice_operator.weighed_depth import weighed_depth

NUMBERS_SECONDS: Final = 30.0
"""Queue numbers reach a pool's status at most this often."""


@dataclass(frozen=True)
class RouterEndpoint:
    """Where one router serves /state, and what its EndpointSlice says of it."""

    host: str
    port: int
    ready: bool
    terminating: bool

    @property
    def url(self) -> str:
        """URL of the state document."""
        return f"{self._origin}/state"

    def url_of_wait(self, known: int, seconds: float) -> str:
        """URL that answers when more than `known` requests have asked in vain, or after so many seconds."""
        return f"{self._origin}/asked-in-vain?after={known}&seconds={seconds:g}"

    @property
    def _origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True)
class Answer:
    """What asking one router came to."""

    endpoint: RouterEndpoint
    state: RouterState | None
    """None: it did not answer in time, or with something else than a state document."""
    refused: bool = False
    """Nothing listened there: no router process runs."""

    @property
    def ended(self) -> bool:
        """Its process has certainly ended: requests that it had ended with it."""
        return self.state is None and self.refused and (self.endpoint.terminating or not self.endpoint.ready)

    @property
    def absent(self) -> bool:
        """It can hold no requests that anyone could count: gone while terminating, or not (yet) running at all."""
        endpoint = self.endpoint
        return self.state is None and (endpoint.terminating or (self.refused and not endpoint.ready))


def router_endpoints(slices: Iterable[Mapping[str, Any]]) -> tuple[RouterEndpoint, ...]:
    """Routers in raw EndpointSlices of their admin Service; terminating and unready ones too, sorted."""
    found = set()
    for one in slices:
        ports = [port.get("port") for port in one.get("ports") or [] if port.get("name") == ROUTER_ADMIN_PORT_NAME]
        for endpoint in one.get("endpoints") or []:
            conditions = endpoint.get("conditions") or {}
            terminating = bool(conditions.get("terminating"))
            # A Service that publishes unready addresses calls every endpoint ready; serving is the pod's own word.
            ready = bool(conditions.get("serving", conditions.get("ready", True)))
            found |= {
                RouterEndpoint(address, port, ready, terminating)
                for address in endpoint.get("addresses") or []
                for port in ports
                if port is not None
            }
    return tuple(sorted(found, key=lambda one: (one.host, one.port)))


def queue_signal(answers: Iterable[Answer], pool: str) -> QueueSignal | None:
    """Demand of a pool (namespace/name) over all routers; None when any part of it is unknown."""
    queued = running = asked = routers = 0
    for answer in answers:
        if answer.absent:
            continue
        seen = answer.state.pools.get(pool) if answer.state else None
        if answer.state is None or (not answer.endpoint.terminating and (not answer.state.synced or seen is None)):
            return None
        routers += 1
        if seen is not None:
            queued += seen.queued
            running += seen.running
            asked += seen.asked_total
    return QueueSignal(queued=queued, running=running, routers=routers, asked=asked) if routers else None


def follows_the_clock(scaling: Scaling) -> bool:
    """Whether time alone, at the same demand, may lead to another decision."""
    return bool(scaling.schedule or scaling.scale_to_zero_after)


def could_change(scaling: Scaling, status: WorkspacePoolStatus, signal: QueueSignal | None, now: datetime) -> bool:
    """Whether a new signal may lead to another decision than the last one; a cheap look that spares full reconciles."""
    if scaling.mode != "QueueDepth":
        return False
    scheduled = scheduled_minimum(scaling.schedule, now)
    minimum, maximum = bounds(scaling, scheduled)
    if scheduled and status.scaling.desired < minimum:
        return True
    if signal is None or status.queue_depth is None:
        return (signal is None) != (status.queue_depth is None)
    memory = status.scaling
    if memory.asleep:
        return wakes(memory, signal)
    awake = scheduled or status.ready_replicas != status.desired_replicas
    if not awake and may_sleep(scaling, memory, signal, now):
        return True
    present = status.desired_replicas
    wanted = wanted_replicas(scaling, weighed_depth(memory, signal), signal.queued, status.ready_replicas, present)
    wanted = min(max(wanted, minimum), maximum)
    return wanted != (memory.lower[-1].replicas if memory.lower else status.desired_replicas)
