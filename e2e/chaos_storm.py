"""Carries out a plan: requests at their times, faults one after the other, and a record of what happened when."""

import asyncio
import re
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

from scripted_kubernetes_api import ScriptedApi

from chaos_callers import Callers
from chaos_plan import POOLS, REPLICAS, EngineFault, Fault, Plan, Pool, RouterFault
from chaos_pods import Pod, Pods
from chaos_routers import Router, Routers, replicas_in
from cpu_starvation import Starvation

_LOOK_SECONDS: Final = 0.1
HEALED_SECONDS: Final = 40.0
"""Within which routers use a healed replica again, and hear of one that goes."""
START_SECONDS: Final = 120.0
"""Within which a process starts; it takes a second on an idle machine."""
REST_SECONDS: Final = 10.0
"""Within which nothing is left of a storm: routers close connections to engines that are idle for 3 s."""
_NOW: Final = re.compile(
    r"^workslice_router_((?:queued|running|outstanding|oldest|client_connections)[^ ]*) (\S+)$", re.MULTILINE
)
"""What a router says that it has now; all of it is nothing after a storm."""
_LAG_LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something went wrong with an engine or a router during this time."""

    fault: Fault | RouterFault
    victim: str
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Farewell:
    """A replica that must get nothing new after `known`, when every router had said so."""

    replica: str
    known: float


@dataclass
class Record:
    """What happened."""

    troubles: list[Trouble] = field(default_factory=list)
    farewells: list[Farewell] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What went wrong with the storm itself: a healed replica that is not used again, for instance."""
    starvation: Callable[[str, float, float], float] = lambda victim, since, until: 0.0
    """For how long an engine or a router got no CPU between two times."""
    lag: float = 0.0
    """The longest time for which the storm itself stood still: nothing in it is known more exactly."""


class Storm:
    """The parts of one storm; `run` carries out the plan."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.api = ScriptedApi()
        self.record = Record()
        self._plan = plan
        self.pods = Pods(self.api, folder)
        self.routers = Routers(folder)
        self.callers = Callers(self.routers)

    async def start(self) -> None:
        """Start everything, and wait until every router has every replica."""
        await self.api.start()
        pods = [self.pods.add(pool) for pool in POOLS for _ in range(REPLICAS)]
        await asyncio.gather(self.pods.wait_until_ready(), self.routers.start(self.api.port))
        for pod in pods:
            await self._until_told(pod, "is well, but not used", _used)

    async def stop(self) -> None:
        """End everything, whatever part of it was started."""
        self.callers.close()
        ended = await asyncio.gather(
            *(router.kill() for router in self.routers.all),
            *(pod.stop() for pod in self.pods.all),
            return_exceptions=True,
        )
        await self.api.stop()
        for error in ended:
            if error is not None:
                raise error

    async def run(self) -> None:
        """The storm; returns when everything is healed and everybody has an answer."""
        began = monotonic()
        starvation = Starvation(self._processes)
        self.record.starvation = starvation.seconds
        watches = [asyncio.create_task(self._measure_lag()), asyncio.create_task(starvation.watch())]
        end = began + self._plan.seconds
        async with asyncio.TaskGroup() as group:
            for ask in self._plan.asks:
                group.create_task(self._ask(began, ask.at, self.callers.ask(ask)))
            for pool in POOLS:
                group.create_task(self._break_engines(pool, self._plan.engine_faults[pool.name], end))
            group.create_task(self._end_routers(end))
            group.create_task(self._break_api(end))
        starvation.look()
        for watch in watches:
            watch.cancel()

    async def until_at_rest(self, at_start: list[dict[str, int]]) -> list[str]:
        """Wait until every account of every router is zero and no router holds more than at its start; returns what is left in the end."""
        end = monotonic() + REST_SECONDS
        while left := await self._left(at_start):
            if monotonic() > end:
                break
            await asyncio.sleep(_LOOK_SECONDS)
        return left

    async def held(self) -> list[dict[str, int]]:
        """What each router holds of descriptors, connections, threads and tasks."""
        return [await router.held() for router in self.routers.all]

    async def _left(self, at_start: list[dict[str, int]]) -> list[str]:
        found = []
        for router in self.routers.all:
            found += _accounts(await router.state())
            found += [
                f"{router.name} {name}: {value}" for name, value in _NOW.findall(await router.metrics()) if float(value)
            ]
        for router, before, now in zip(self.routers.all, at_start, await self.held(), strict=True):
            if any(now[name] > before[name] for name in now):
                found.append(f"{router.name} holds {now} instead of {before}")
        return found

    def _processes(self) -> dict[str, int]:
        named = [(pod.uid, pod.process) for pod in self.pods.all]
        named += [(router.name, router.process) for router in self.routers.all]
        return {name: process.pid for name, process in named if process is not None and process.returncode is None}

    async def _ask(self, began: float, at: float, asking: Coroutine[Any, Any, None]) -> None:
        await asyncio.sleep(max(0.0, began + at - monotonic()))
        await asking

    async def _measure_lag(self) -> None:
        while True:
            before = monotonic()
            await asyncio.sleep(_LAG_LOOK_SECONDS)
            self.record.lag = max(self.record.lag, monotonic() - before - _LAG_LOOK_SECONDS)

    # --- engines ----------------------------------------------------------------------------------------------------------

    async def _break_engines(self, pool: Pool, faults: tuple[EngineFault, ...], end: float) -> None:
        for fault in faults:
            await asyncio.sleep(fault.pause)
            if monotonic() + fault.seconds > end:
                return
            pod = self.pods.living(pool)[fault.replica]
            since = monotonic()
            try:
                pod = await self._break(pod, fault)
            finally:
                self.record.troubles.append(Trouble(fault.fault, pod.uid, since, monotonic()))
            await self._until_told(pod, "is well, but not used", _used)

    async def _break(self, pod: Pod, fault: EngineFault) -> Pod:
        """Do what the fault says, until it is healed; returns the engine that is there afterwards."""
        match fault.fault:
            case Fault.KILL | Fault.SLOW_START:
                pod.start_seconds = fault.seconds if fault.fault is Fault.SLOW_START else 0.0
                pod.signal(signal.SIGKILL)
                await self._until_back(pod)
            case Fault.DIE | Fault.CORE_DIES:
                name = "process_dies_after" if fault.fault is Fault.DIE else "core_dies_after"
                await self._set(pod, 0.0, **{name: fault.amount})
                await self._until_back(pod, patience=fault.seconds * 2)
            case Fault.STOP:
                pod.signal(signal.SIGSTOP)
                await asyncio.sleep(fault.seconds)
                pod.signal(signal.SIGCONT)
            case Fault.STALL:
                await self._set(pod, fault.seconds, hangs_after=fault.amount)
            case Fault.RESET:
                await self._set(pod, fault.seconds, reset_after=fault.amount * 20)
            case Fault.RESET_AT_ONCE:
                await self._set(pod, fault.seconds, reset_after=0)
            case Fault.CRUMBS:
                await self._set(pod, fault.seconds, split_writes=fault.amount)
            case Fault.TOO_LONG:
                await self._set(pod, fault.seconds, content_length_off_by=fault.amount)
            case Fault.TOO_SHORT:
                await self._set(pod, fault.seconds, content_length_off_by=-fault.amount)
            case Fault.DRAIN | Fault.DELETE:
                return await self._replace(pod, drained_first=fault.fault is Fault.DRAIN)
        return pod

    async def _set(self, pod: Pod, seconds: float, **faults: Any) -> None:
        """Set faults, and end them after so many seconds, if any."""
        await pod.set_faults(**faults)
        if seconds:
            await asyncio.sleep(seconds)
            await pod.set_faults()

    async def _until_back(self, pod: Pod, patience: float = 0.0) -> None:
        """Wait until its process has ended and the next one is ready; kill it when it has not ended after `patience`."""
        process = pod.process
        assert process is not None
        try:
            async with asyncio.timeout(patience or None):
                await process.wait()
        except TimeoutError:
            pod.signal(signal.SIGKILL)
        await _until_ready(pod, other_than=process)

    async def _replace(self, pod: Pod, *, drained_first: bool) -> Pod:
        successor = self.pods.add(pod.pool)
        await _until_ready(successor)
        if drained_first:
            self.pods.mark_draining(pod, marked=True)
            await self._until_told(pod, "is not known to drain", _goes)
            self.record.farewells.append(Farewell(pod.uid, monotonic()))
            await self._until_told(pod, "still runs something", lambda found: found is None or not found["inFlight"])
            pod.delete()
        else:
            pod.delete()
            await self._until_told(pod, "is not known to be terminating", _goes)
            self.record.farewells.append(Farewell(pod.uid, monotonic()))
        await pod.ended()
        pod.forget()
        self.pods.mark_draining(pod, marked=False)
        return successor

    async def _until_told(self, pod: Pod, complaint: str, holds: Callable[[dict[str, Any] | None], bool]) -> None:
        """Wait until it holds for what every router that answers says of the replica; complain when it does not in time."""
        end = monotonic() + HEALED_SECONDS
        while monotonic() < end:
            states = await self.routers.states()
            if states and all(holds(replicas_in(state).get(pod.uid)) for state in states):
                return
            await asyncio.sleep(_LOOK_SECONDS)
        self.record.complaints.append(f"{pod.uid} {complaint} after {HEALED_SECONDS:g} s")

    # --- routers ----------------------------------------------------------------------------------------------------------

    async def _end_routers(self, end: float) -> None:
        for one in self._plan.router_ends:
            await asyncio.sleep(one.pause)
            if monotonic() + one.pause > end:
                return
            router, since = self.routers.all[one.router], monotonic()
            await self._end_router(router, one.fault)
            await router.start()
            self.record.troubles.append(Trouble(one.fault, router.name, since, monotonic()))

    async def _break_api(self, end: float) -> None:
        for outage in self._plan.api_outages:
            await asyncio.sleep(outage.pause)
            if monotonic() + outage.seconds > end:
                return
            if outage.seconds:
                await self.api.stop()
                await asyncio.sleep(outage.seconds)
                await self.api.start()
            else:
                self.api.break_watches()

    async def _end_router(self, router: Router, fault: RouterFault) -> None:
        try:
            await router.end(signal.SIGKILL if fault is RouterFault.KILL else signal.SIGTERM)
        except TimeoutError:
            self.record.complaints.append(f"{router.name} does not end after {fault}")
            await router.end(signal.SIGKILL)


async def _until_ready(pod: Pod, other_than: object = None) -> None:
    """Wait until the pod's engine answers, in another process than that one. Raises AssertionError after START_SECONDS."""
    end = monotonic() + START_SECONDS
    while not pod.ready or pod.process is other_than:
        assert monotonic() < end, (
            f"the engine of {pod.uid} did not start within {START_SECONDS:g} s: is the machine too busy?"
        )
        await asyncio.sleep(_LOOK_SECONDS)


def _goes(replica: dict[str, Any] | None) -> bool:
    return replica is None or bool(replica["draining"])


def _used(replica: dict[str, Any] | None) -> bool:
    return bool(replica and replica["ready"] and not replica["ejected"] and not replica["draining"])


def _accounts(state: dict[str, Any]) -> list[str]:
    """Those that are not zero."""
    found = []
    for key, pool in state["pools"].items():
        sums = {name: pool[name] for name in ("queued", "running", "queuedTokens")}
        sums |= {name: sum(abs(one[name]) for one in pool["replicas"]) for name in ("inFlight", "outstandingTokens")}
        if any(sums.values()):
            found.append(f"{state['router']} {key}: {sums}")
    return found
