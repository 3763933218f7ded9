"""Compares what clients, engines and routers saw of a storm with what routers promise; returns what was broken, with its evidence. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from chaos_answers import fault_of, says_that_it_is_cut
from chaos_callers import End, Try
from chaos_plan import DEADLY, Fault, RouterFault
from chaos_pods import Arrival
from chaos_storm import Record, Trouble
from engine_sim.errors import TOO_MANY_REQUESTS
from workslice_router.engine_failure import MAX_RETRIES

ABORT_SECONDS: Final = 1.0
"""Within which an engine hears that its client has gone."""
_KNOWN_SECONDS: Final = 0.3
"""What a router sent before it knew of a drain may arrive so much later."""
_AFTERMATH_SECONDS: Final = 0.5
"""For which an engine's end goes on to break what runs."""
_SETTING_SECONDS: Final = 0.5
"""Until an engine has taken a fault."""
_OK: Final = 200
_TOO_MANY: Final = 429
_ENGINE_DIED: Final = 500
_BUSY: Final = 503
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
    retries: dict[str, int] = {}
    for line in logs:
        if "exception" in line or line["level"] == "error":
            found.append(f"a router logged: {line['message']} {line.get('exception', '')}")
        if "requestId" in line:
            retries[line["requestId"]] = line.get("retries", 0)
    for tried in tries:
        found += [f"{promise}: {tried}" for promise in _of_answer(tried, by_victim, retries.get(tried.id, 0))]
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


def _of_answer(tried: Try, troubles: dict[str, list[Trouble]], retries: int) -> Iterator[str]:
    router = [one for one in troubles[tried.router] if _meets(one, tried)]
    killed = any(one.fault is RouterFault.KILL for one in router)
    if tried.end is End.HANGS:
        yield "a request hangs"
    elif tried.end is End.REFUSED:
        if not router:
            yield "a router that runs takes no connection"
    elif tried.end is End.UNANSWERED:
        if not killed and not (tried.reused and router):
            yield "a connection ends without an answer"
    elif tried.status == _OK:
        yield from _of_good_answer(tried, troubles, killed)
    elif tried.end is End.LEFT or killed:
        pass
    elif tried.status in _ERRORS:
        if tried.status == _BUSY and tried.body.count(TOO_MANY_REQUESTS.encode()) and "retry-after" in tried.headers:
            return  # every replica that it tried was full
        died = tried.status == _ENGINE_DIED and _struck(tried, troubles, Fault.CORE_DIES)
        if not died and not (retries == MAX_RETRIES and _struck(tried, troubles, *Fault)):
            yield f"a request is lost before its first byte after {retries} retries"
    elif tried.status != _TOO_MANY:
        yield "a good request is refused"


def _of_good_answer(tried: Try, troubles: dict[str, list[Trouble]], killed: bool) -> Iterator[str]:
    if not tried.ask.stream and _struck(tried, troubles, Fault.TOO_SHORT):
        return
    if tried.end is End.CUT:
        kinds = {Fault.TOO_LONG, Fault.TOO_SHORT}
        deadly = DEADLY - kinds if tried.ask.stream else DEADLY - {Fault.TOO_SHORT}
        had_begun = _struck(tried, troubles, Fault.RESET_AT_ONCE, begun_before=True)
        if not (killed or had_begun or _struck(tried, troubles, *deadly)):
            yield "an answer is cut although nothing happened to its replica"
        if killed:
            return
        if tried.ask.stream and not says_that_it_is_cut(tried):
            yield "a stream is cut without a word"
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


def _struck(tried: Try, troubles: dict[str, list[Trouble]], *faults: Fault, begun_before: bool = False) -> bool:
    return any(
        one.fault in faults
        and _meets(one, tried)
        and not (begun_before and tried.started > one.since + _SETTING_SECONDS)
        for one in troubles[tried.replica]
    )


def _meets(trouble: Trouble, tried: Try) -> bool:
    return trouble.since <= tried.ended and tried.started <= trouble.until + _AFTERMATH_SECONDS
