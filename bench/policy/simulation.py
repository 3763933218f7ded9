"""Runs one stream of requests through one policy and its engines, event by event."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Protocol

from engine_model import Engine, EngineSettings
from workload import Request

Send = Callable[[Request, int, int], None]
"""Gives a request to an engine, by its number, with a priority."""


class Policy(Protocol):
    """Decides where requests go; it is told what a router sees."""

    def start(self, clock: Callable[[], float], send: Send) -> None: ...

    def arrived(self, request: Request) -> None: ...

    def first_token(self, request: Request) -> None: ...

    def finished(self, request: Request) -> None: ...

    def tick(self) -> None:
        """Ten times a second."""


@dataclass
class Clock:
    now: float = 0.0


@dataclass(frozen=True)
class Run:
    requests: list[Request]
    refused: int
    preemptions: int
    utilization: float


def simulate(requests: list[Request], engines: list[EngineSettings], policy: Policy) -> Run:
    """Until every request has ended."""
    clock = Clock()
    events: list[tuple[float, int, int]] = []

    def first(request: Request, now: float) -> None:
        policy.first_token(request)

    def finish(request: Request, now: float) -> None:
        policy.finished(request)

    running = [Engine(settings, first, finish) for settings in engines]

    def plan(number: int) -> None:
        until = running[number].begin(clock.now)
        if until is not None:
            heappush(events, (until, number, running[number].version))

    def send(request: Request, number: int, priority: int) -> None:
        request.replica = number
        engine = running[number]
        until = engine.add(request, priority, clock.now)
        if until is not None:
            heappush(events, (until, number, engine.version))
        elif not engine.busy:
            plan(number)

    policy.start(lambda: clock.now, send)
    coming = iter(requests)
    request = next(coming, None)
    next_tick = 0.0
    while request is not None or events:
        if request is not None and (not events or request.arrival <= events[0][0]):
            clock.now = request.arrival
            if clock.now >= next_tick:
                next_tick = clock.now + 0.1
                policy.tick()
            policy.arrived(request)
            request = next(coming, None)
            continue
        at, number, version = heappop(events)
        engine = running[number]
        if version != engine.version:
            continue
        clock.now = at
        engine.end(at)
        plan(number)
    lasted = max((one.finished for one in requests), default=0.0)
    return Run(
        requests,
        refused=sum(not one.finished for one in requests),
        preemptions=sum(engine.preemptions for engine in running),
        utilization=sum(engine.busy_seconds for engine in running) / (lasted * len(running)) if lasted else 0.0,
    )
