"""Compares what clients, engines and routers saw of a storm with what routers promise; returns what was broken, with its evidence. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from chaos_answers import fault_of, says_anything, says_that_it_is_cut
from chaos_callers import End, Try
from chaos_plan import DEADLY, Fault, RouterFault
from chaos_pods import Arrival
from chaos_storm import Record, Trouble
from engine_sim.errors import CORE_DIED, TOO_MANY_REQUESTS
from workslice_router.engine_failure import MAX_RETRIES

ABORT_SECONDS: Final = 1.0
"""Within which an engine hears that its client has gone."""
_KNOWN_SECONDS: Final = 0.3
"""What a router sent before it knew of a drain may arrive so much later."""
_AFTERMATH_SECONDS: Final = 0.5
"""For which an engine's end goes on to break what runs."""
_SETTING_SECONDS: Final = 0.5
"""Until an engine has taken a fault."""
_NO_BUDGET: Final = "not tried again"
"""In the log of a request that another replica might have answered, had not too many been tried again already."""
_OK: Final = 200
_TOO_MANY: Final = 429
_ENGINE_DIED: Final = 500
_ERRORS: Final = range(500, 600)


def broken_promises(
    record: Record, tries: Iterable[Try], arrivals: Iterable[Arrival], logs: Iterable[dict[str, Any]]
) -> list[str]:
    """All of them, in a sentence each; `logs` are the lines of all routers."""
    by_victim: dict[str, list[Trouble]] = defaultdict(list)
    for trouble in record.troubles:
        by_victim[trouble.victim].append(trouble)
    arrived: dict[str, list[Arrival]] = defaultdict(list)
    for arrival in arrivals:
        arrived[arrival.request.rpartition("-")[0]].append(arrival)
    found = list(record.complaints)
    said: dict[str, dict[str, Any]] = {}
    for line in logs:
        if "exception" in line or line["level"] == "error":
            found.append(f"a router logged: {line['message']} {line.get('exception', '')}")
        if "requestId" in line:
            said[line["requestId"]] = line
    for tried in tries:
        case = _Case(tried, by_victim, said.get(tried.id, {}))
        found += [f"{promise}: {tried}" for promise in _of_answer(case)]
        found += _of_departure(tried, arrived[tried.id], by_victim, record)
    for farewell in record.farewells:
        for arrival in (one for several in arrived.values() for one in several if one.replica == farewell.replica):
            starved = record.starvation(farewell.replica, farewell.known, arrival.at)
            if arrival.at > farewell.known + _KNOWN_SECONDS + record.lag + starved:
                late = arrival.at - farewell.known
                found.append(
                    f"{arrival.request} came to {arrival.replica} {late:.2f} s after all routers knew that it goes"
                )
    return found


@dataclass(frozen=True, slots=True)
class _Case:
    """One try, and what is to be known around it."""

    tried: Try
    troubles: dict[str, list[Trouble]]
    """By victim."""
    said: dict[str, Any]
    """What its router has logged of it in the end."""

    @property
    def router_troubles(self) -> set[Fault | RouterFault]:
        """What happened to its router meanwhile."""
        return {one.fault for one in self.troubles[self.tried.router] if _meets(one, self.tried)}

    def struck(self, *faults: Fault) -> bool:
        """Whether one of these happened to its last replica meanwhile."""
        replica = self.said.get("replica") or self.tried.replica
        return any(one.fault in faults and _meets(one, self.tried) for one in self.troubles[replica])

    def was_reset_midway(self) -> bool:
        """Whether its replica, which resets what it begins to answer, did so to one that it had begun to answer before."""
        replica = self.said.get("replica") or self.tried.replica
        begun = [one for one in self.troubles[replica] if self.tried.started <= one.since + _SETTING_SECONDS]
        return any(one.fault is Fault.RESET_AT_ONCE and _meets(one, self.tried) for one in begun)


def _of_answer(case: _Case) -> Iterator[str]:
    tried, router = case.tried, case.router_troubles
    if tried.end is End.HANGS:
        yield "a request hangs"
    elif tried.end is End.REFUSED:
        if not router:
            yield "a router that runs takes no connection"
    elif tried.end is End.UNANSWERED:
        if RouterFault.KILL not in router and not (tried.reused and router):
            yield "a connection ends without an answer"
    elif tried.status == _OK:
        yield from _of_good_answer(case)
    elif tried.end is End.LEFT or RouterFault.KILL in router:
        pass
    elif tried.status in _ERRORS:
        yield from _of_loss(case, tried.status)
    elif tried.status != _TOO_MANY:
        yield "a good request is refused"


def _of_loss(case: _Case, status: int | None) -> Iterator[str]:
    """Of an error in place of an answer; its status is unknown when a comment had promised 200 before."""
    body, retries = case.tried.body, case.said.get("retries", 0)
    if any(sign.encode() in body for sign in (TOO_MANY_REQUESTS, "queue_timeout", "queue_full")):
        return  # every replica that it tried was full
    if status in (None, _ENGINE_DIED) and case.struck(Fault.CORE_DIES) and CORE_DIED.encode() in body:
        return
    if not case.struck(*Fault) or not (retries == MAX_RETRIES or _NO_BUDGET in case.said.get("detail", "")):
        yield f"a request is lost before its first byte after {retries} retries"


def _of_good_answer(case: _Case) -> Iterator[str]:
    tried = case.tried
    if tried.end is End.CUT:
        if RouterFault.KILL in case.router_troubles:
            return
        if tried.ask.stream and not says_that_it_is_cut(tried):
            yield "a stream is cut without a word"
        if tried.ask.stream and not says_anything(tried):
            yield from _of_loss(case, None)
            return
        harmless = {Fault.TOO_LONG, Fault.TOO_SHORT} if tried.ask.stream else set[Fault]()
        if not (case.struck(*DEADLY - harmless) or case.was_reset_midway()):
            yield "an answer is cut although nothing happened to its replica"
    fault = fault_of(tried)
    if fault:
        yield f"an answer {fault}"


def _of_departure(
    tried: Try, arrivals: list[Arrival], troubles: dict[str, list[Trouble]], record: Record
) -> Iterator[str]:
    """A client that has gone, or whose router was killed, must be gone for its engine, too."""
    killed = [one for one in troubles[tried.router] if one.fault is RouterFault.KILL and _meets(one, tried)]
    if tried.end is not End.LEFT and not killed:
        return
    for arrival in arrivals:
        if arrival.left is None:
            continue
        starved = sum(record.starvation(name, tried.ended, arrival.left) for name in (tried.router, arrival.replica))
        gone = tried.ended + ABORT_SECONDS + record.lag + starved
        stopped = any(
            one.fault is Fault.STOP and one.since <= gone and tried.ended - ABORT_SECONDS <= one.until
            for one in troubles[arrival.replica]
        )
        if arrival.left > gone and not stopped:
            late, came = arrival.left - tried.ended, arrival.at - tried.ended
            yield (
                f"{arrival.request} came to {arrival.replica} at {came:+.2f} s and ended there {late:.2f} s after its client "
                f"had gone ({starved:.2f} s of it without a CPU)"
            )


def _meets(trouble: Trouble, tried: Try) -> bool:
    return trouble.since <= tried.ended and tried.started <= trouble.until + _AFTERMATH_SECONDS
