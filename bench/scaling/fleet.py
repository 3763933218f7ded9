"""Replicas that start, serve and drain, sized by an autoscaler: one run, event by event."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from engine_model import Engine, EngineSettings
from simulation import Clock, Policy
from workload import Request

COLD_START_SECONDS = 90.0
START_REPLICAS = 2
MIN_REPLICAS, MAX_REPLICAS = 1, 10
_TICK_SECONDS = 0.1


@dataclass(frozen=True)
class Look:
    """What an autoscaler can see."""

    now: float
    queued: int
    """Requests that the router holds back."""
    running: int
    """Requests that engines have."""
    waiting: int
    """Those of them that an engine has not begun: vllm:num_requests_waiting."""
    ready: int
    starting: int
    current: int
    """Replicas that were asked for last."""


class Autoscaler(Protocol):
    """Says how many replicas there should be."""

    every: float
    """Seconds between two looks."""

    def desired(self, look: Look) -> int: ...


class Dispatcher(Policy, Protocol):
    """A router whose replicas come and go."""

    def rotation(self, replicas: Collection[int]) -> None:
        """The replicas that may get requests now."""

    @property
    def queued(self) -> int: ...


@dataclass(eq=False)
class Replica:
    """One replica from the moment at which it takes its slice."""

    number: int
    engine: Engine
    made_at: float
    ready_at: float
    draining: bool = False
    gone_at: float | None = None
    requests: int = 0

    def ready(self, now: float) -> bool:
        return self.gone_at is None and now >= self.ready_at

    def hours(self, until: float) -> float:
        """Ready, the time in which it drains included."""
        return max(0.0, min(until, self.gone_at or until) - min(self.ready_at, until)) / 3600

    def slice_hours(self, until: float) -> float:
        return max(0.0, min(until, self.gone_at or until) - min(self.made_at, until)) / 3600


@dataclass
class FleetRun:
    """What came of it."""

    requests: list[Request]
    replica_hours: float = 0.0
    slice_hours: float = 0.0
    sizes: list[tuple[float, int]] = field(default_factory=list)
    """When another size was asked for, and which."""


class Fleet:
    """The replicas of one pool and the clock."""

    def __init__(
        self, requests: list[Request], seconds: float, dispatcher: Dispatcher, autoscaler: Autoscaler, start: int
    ) -> None:
        self._requests = requests
        self._seconds = seconds
        self._dispatcher = dispatcher
        self._autoscaler = autoscaler
        self._clock = Clock()
        self._events: list[tuple[float, int, int, Callable[[], None]]] = []
        self._serial = 0
        self._replicas: dict[int, Replica] = {}
        self._all: list[Replica] = []
        self._desired = start
        self.run = FleetRun(requests, sizes=[(0.0, start)])
        for _ in range(start):
            self._make(ready_at=0.0)

    def simulate(self) -> FleetRun:
        """Until every request has ended."""
        clock = self._clock
        self._dispatcher.start(lambda: clock.now, self._send)
        self._in_rotation()
        self._at(self._autoscaler.every, self._look)
        left = len(self._requests)
        self._left = left
        coming = iter(self._requests)
        request = next(coming, None)
        next_tick = 0.0
        while self._left:
            if request is not None and (not self._events or request.arrival <= self._events[0][0]):
                clock.now = request.arrival
                if clock.now >= next_tick:
                    next_tick = clock.now + _TICK_SECONDS
                    self._dispatcher.tick()
                self._dispatcher.arrived(request)
                request = next(coming, None)
                continue
            clock.now, _, _, act = heappop(self._events)
            act()
        self.run.replica_hours = sum(one.hours(self._seconds) for one in self._all)
        self.run.slice_hours = sum(one.slice_hours(self._seconds) for one in self._all)
        return self.run

    def _at(self, when: float, act: Callable[[], None]) -> None:
        self._serial += 1
        heappush(self._events, (when, self._serial, 0, act))

    # --- requests -----------------------------------------------------------------------------------------------------------

    def _send(self, request: Request, number: int, priority: int) -> None:
        replica = self._replicas[number]
        request.replica = number
        replica.requests += 1
        engine = replica.engine
        until = engine.add(request, priority, self._clock.now)
        if until is not None:
            self._at(until, self._end_of(replica))
        elif not engine.busy:
            self._begin(replica)

    def _begin(self, replica: Replica) -> None:
        until = replica.engine.begin(self._clock.now)
        if until is not None:
            self._at(until, self._end_of(replica))

    def _end_of(self, replica: Replica) -> Callable[[], None]:
        version = replica.engine.version

        def end() -> None:
            if version == replica.engine.version:
                replica.engine.end(self._clock.now)
                self._begin(replica)

        return end

    def _first(self, request: Request, now: float) -> None:
        self._dispatcher.first_token(request)

    def _finished(self, request: Request, now: float) -> None:
        self._left -= 1
        replica = self._replicas[request.replica]
        replica.requests -= 1
        self._dispatcher.finished(request)
        self._let_go(replica)

    # --- replicas -----------------------------------------------------------------------------------------------------------

    def _make(self, ready_at: float) -> None:
        number = next(one for one in range(64) if one not in self._replicas)
        engine = Engine(EngineSettings(), self._first, self._finished)
        replica = Replica(number, engine, self._clock.now, ready_at)
        self._replicas[number] = replica
        self._all.append(replica)
        if ready_at > self._clock.now:
            self._at(ready_at, self._in_rotation)

    def _in_rotation(self) -> None:
        now = self._clock.now
        self._dispatcher.rotation([one.number for one in self._live() if one.ready(now)])

    def _live(self) -> list[Replica]:
        return [one for one in self._replicas.values() if not one.draining]

    def _let_go(self, replica: Replica) -> None:
        if replica.draining and not replica.requests and replica.gone_at is None:
            replica.gone_at = self._clock.now
            del self._replicas[replica.number]

    def _look(self) -> None:
        now = self._clock.now
        self._at(now + self._autoscaler.every, self._look)
        live = self._live()
        ready = sum(one.ready(now) for one in live)
        running = sum(one.requests for one in self._replicas.values())
        waiting = sum(len(one.engine.waiting) for one in self._replicas.values())
        look = Look(now, self._dispatcher.queued, running, waiting, ready, len(live) - ready, self._desired)
        desired = self._autoscaler.desired(look)
        if desired != self._desired:
            if now <= self._seconds:
                self.run.sizes.append((now, desired))
            self._desired = desired
            self._resize(desired - len(live), now)

    def _resize(self, more: int, now: float) -> None:
        if more > 0:
            # Those that drain are called back first, as the operator does.
            back = sorted((one for one in self._replicas.values() if one.draining), key=lambda one: -one.requests)
            for one in back[:more]:
                one.draining = False
            for _ in range(more - len(back)):
                self._make(now + COLD_START_SECONDS)
        # As a ReplicaSet does: those that are not ready first. Then the emptiest.
        victims = sorted(self._live(), key=lambda one: (one.ready(now), one.requests))[: max(0, -more)]
        for one in victims:
            one.draining = True
        self._in_rotation()
        for one in victims:
            self._let_go(one)
