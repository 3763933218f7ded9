"""Passive ejection: when a replica that fails gets a rest, how long, and how it comes back. Pure: states in, states out."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

FIRST_REST: Final = 1.0
LONGEST_REST: Final = 30.0
ERRORS_IN_A_ROW: Final = 3
BUSY_REST: Final = 0.5
"""A pause, not an ejection: who is full is well. It counts as no failure, needs no probe and never grows."""
DRAINING_REST: Final = 5.0
PROBE_INTERVAL: Final = 1.0
HELD_BACK_SECONDS: Final = 5.0
"""How long nothing goes to a replica that hangs; it is asked again before."""
MOST_EJECTIONS: Final = 16
HOPEFUL_EJECTIONS: Final = 3
"""Up to here (seven seconds of rests) requests wait for the replica to come back; beyond it they are refused at once."""


class Outcome(Enum):
    """How an attempt on a replica ended."""

    OK = "ok"
    """The engine gave an answer that counts, 4xx included: what the client sent was wrong, not the replica."""
    TOO_LONG = "too_long"
    """The engine counted more prompt tokens than its context holds: the estimate was wrong, the replica is well."""
    CLIENT_GONE = "client_gone"
    """Says nothing about the replica."""
    ENGINE_ERROR = "engine_error"
    """A 5xx that is the engine's fault, or an error object inside a stream."""
    CORE_DIED = "core_died"
    """The API server of the engine says that the core behind it is gone: it follows within seconds."""
    ROUTER_FAULT = "router_fault"
    """The router could not even try: no file, port or memory left for a connection. Says nothing about the replica either."""
    CONNECT_FAILED = "connect_failed"
    RESET = "reset"
    """The connection died before the answer was complete."""
    TIMEOUT = "timeout"
    """Silent for longer than any engine should be."""
    TOO_SLOW = "too_slow"
    """Slower than the request's class allows. It says nothing about the replica: others of its requests may have all the time."""
    BUSY = "busy"
    """503 from the engine's own admission."""
    DRAINING = "draining"
    """The 500 of an engine that has been told to stop."""
    ABORTED = "aborted"
    """The engine gave the request up by itself (finish_reason abort): it is being stopped or paused."""


@dataclass(frozen=True, slots=True)
class Health:
    """What a router has seen of a replica."""

    errors: int = 0
    """Failures in a row."""
    ejections: int = 0
    """Rests in a row; each is twice as long as the one before."""
    rest_until: float = 0.0
    """Nothing is sent before this time."""
    ejected: bool = False
    """It failed: after its rest a probe request goes first, and others follow slowly until one is answered."""


HEALTHY: Final = Health()


def available(health: Health, now: float) -> bool:
    """Whether a request may go there. Every rest ends, so that even the last replica is never ejected for ever."""
    return health is HEALTHY or now >= health.rest_until


def sent(health: Health, now: float) -> Health:
    """After a request has been sent there. What goes to an ejected replica are probes, one in a while: not one at a time, since the
    answer to the first may take minutes.
    """
    return replace(health, rest_until=now + PROBE_INTERVAL) if health.ejected else health


def settled(health: Health, outcome: Outcome, now: float, probe: bool) -> Health:
    """After an attempt has ended with `outcome`; `probe` says that it was sent to an ejected replica.

    While a replica is ejected only its probes count: the others were sent before and say nothing new.
    """
    if health.ejected and not probe:
        return health
    match outcome:
        case Outcome.OK | Outcome.TOO_LONG:
            # An engine that drains or is full still finishes what it runs: its pause stands.
            return HEALTHY if health.ejected or now >= health.rest_until else Health(rest_until=health.rest_until)
        case Outcome.CLIENT_GONE | Outcome.ROUTER_FAULT | Outcome.TOO_SLOW:
            return health
        case Outcome.BUSY:
            return replace(health, rest_until=max(health.rest_until, now + BUSY_REST))
        case Outcome.DRAINING | Outcome.ABORTED:
            return replace(health, rest_until=max(health.rest_until, now + DRAINING_REST))
        case Outcome.ENGINE_ERROR | Outcome.TIMEOUT if not health.ejected and health.errors + 1 < ERRORS_IN_A_ROW:
            return replace(health, errors=health.errors + 1)
        case _:
            rest = min(LONGEST_REST, FIRST_REST * 2**health.ejections)
            return Health(health.errors + 1, min(health.ejections + 1, MOST_EJECTIONS), now + rest, ejected=True)


def held_back(health: Health, now: float) -> Health:
    """After a replica has not answered the question whether it lives."""
    rest_until = max(health.rest_until, now + HELD_BACK_SECONDS)
    return replace(health, ejections=min(health.ejections + 1, MOST_EJECTIONS), rest_until=rest_until, ejected=True)


def hopeful(health: Health) -> bool:
    """Whether waiting for this replica makes sense: it is well, or has only begun to fail."""
    return not health.ejected or health.ejections <= HOPEFUL_EJECTIONS
