"""What happens in a storm, drawn from a seed: which requests come when, and what goes wrong meanwhile. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final


class Fault(StrEnum):
    """What goes wrong with one engine."""

    KILL = "kill -9"
    SLOW_START = "kill -9 and a slow start"
    STOP = "SIGSTOP for a while"
    STALL = "its core makes no tokens for a while"
    DIE = "the process dies between tokens"
    CORE_DIES = "the core dies between tokens"
    RESET = "answers are reset"
    RESET_AT_ONCE = "answers are reset before their first byte"
    CRUMBS = "answers come in crumbs"
    TOO_LONG = "answers say that they are longer than they are"
    TOO_SHORT = "answers say that they are shorter than they are"
    DRAIN = "named in status.draining, then deleted"
    DELETE = "deleted without warning"


DEADLY: Final = frozenset(
    {Fault.KILL, Fault.SLOW_START, Fault.DIE, Fault.CORE_DIES, Fault.RESET, Fault.TOO_LONG, Fault.TOO_SHORT}
)
"""Faults that no router can hide from a request that has begun to be answered; the others must not cost any request anything."""


class RouterFault(StrEnum):
    """What goes wrong with a router."""

    KILL = "kill -9"
    TERMINATE = "SIGTERM"


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool of engines."""

    name: str
    model: str
    class_name: str
    class_tokens: int
    context: int
    first_token: str
    """Of its class's service level."""
    keep_alive: str | None = None
    """How often waiting streams of its class get a comment."""


POOLS: Final = (
    Pool("short", "swift", "short", 1200, 2048, "500ms"),
    Pool("long", "swift", "long", 8000, 8192, "5s"),
    Pool("other", "deep", "any", 4000, 4096, "1s", keep_alive="1s"),
)
REPLICAS: Final = 2
ROUTERS: Final = 2
CALLERS: Final = ("ada", "bob", "eve")
CALM_SECONDS: Final = 5.0
"""Requests go on for so long after the last fault: without them no router finds out that a replica which failed is well again."""
_REQUESTS_PER_SECOND: Final = 12
_LEFT_TOKENS: Final = (400, 600)
_BURST: Final = 20
_BURST_EVERY_SECONDS: Final = 7.0


@dataclass(frozen=True, slots=True)
class EngineFault:
    """One fault of an engine of a pool; the next one of the same pool comes when this one is healed."""

    fault: Fault
    replica: int
    pause: float
    """Seconds before it."""
    seconds: float
    """How long it lasts, where that is not up to the fault itself."""
    amount: int
    """Tokens or bytes after which it strikes."""


@dataclass(frozen=True, slots=True)
class RouterEnd:
    """One end of a router, which starts again afterwards."""

    fault: RouterFault
    router: int
    pause: float


@dataclass(frozen=True, slots=True)
class ApiOutage:
    """The Kubernetes API is gone for a while; routers go on with what they know."""

    pause: float
    """Seconds before it."""
    seconds: float
    """0: only the watches break."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, and how its client behaves."""

    id: str
    at: float
    """Seconds after the begin of the storm."""
    caller: str
    model: str
    words: int
    """Of the prompt."""
    tokens: int
    """Most tokens of the answer."""
    ends_by_itself: bool
    """Whether the answer may be shorter."""
    chat: bool
    stream: bool
    router: int
    """The one to ask first."""
    keeps_connection: bool
    leaves_after: float | None
    """Seconds after which the client goes."""
    leaves_at_event: int | None
    """Events of a stream after which it goes."""
    pause: float
    """Seconds for which it does not read after the first bytes of an answer."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One storm."""

    seed: int
    seconds: float
    asks: tuple[Ask, ...]
    engine_faults: dict[str, tuple[EngineFault, ...]]
    """By pool."""
    router_ends: tuple[RouterEnd, ...]
    api_outages: tuple[ApiOutage, ...]


def plan(seed: int, seconds: float) -> Plan:
    """The same storm for the same seed."""
    # A source of chance for each part, so that more of one does not change the others.
    asks = tuple(_asks(Random(f"asks {seed}"), seconds + CALM_SECONDS))
    faults = {pool.name: tuple(_faults(Random(f"{pool.name} {seed}"), seconds)) for pool in POOLS}
    router_ends = tuple(_router_ends(Random(f"routers {seed}"), seconds))
    return Plan(seed, seconds, asks, faults, router_ends, tuple(_api_outages(Random(f"API {seed}"), seconds)))


def _faults(chance: Random, seconds: float) -> Iterator[EngineFault]:
    for _ in range(1 + int(seconds / len(Fault))):  # more than there is time for
        kinds = list(Fault)
        chance.shuffle(kinds)
        for kind in kinds:
            yield EngineFault(
                kind,
                replica=chance.randrange(REPLICAS),
                pause=chance.uniform(0.1, 0.8),
                seconds=chance.uniform(0.8, 2.5),
                amount=chance.randrange(1, 60),
            )


def _router_ends(chance: Random, seconds: float) -> Iterator[RouterEnd]:
    router = chance.randrange(ROUTERS)
    kinds = list(RouterFault)
    chance.shuffle(kinds)
    for number in range(1 + int(seconds / 4)):
        yield RouterEnd(kinds[number % len(kinds)], (router + number) % ROUTERS, chance.uniform(2.0, 4.0))


def _api_outages(chance: Random, seconds: float) -> Iterator[ApiOutage]:
    for _ in range(1 + int(seconds / 5)):
        yield ApiOutage(chance.uniform(5.0, 10.0), chance.choice((0.0, chance.uniform(0.5, 2.0))))


def _asks(chance: Random, seconds: float) -> Iterator[Ask]:
    times = []
    now = 0.0
    while now < seconds:
        times.append(now)
        now += chance.expovariate(_REQUESTS_PER_SECOND)
    burst = _BURST_EVERY_SECONDS / 2
    while burst < seconds:
        times += [burst] * _BURST
        burst += _BURST_EVERY_SECONDS
    for number, at in enumerate(sorted(times)):
        yield _ask(chance, f"ask-{number}", at)


def _ask(chance: Random, name: str, at: float) -> Ask:
    kind = chance.choices(("short", "long", "other"), (60, 18, 22))[0]
    words = {"short": (10, 300), "long": (700, 3500), "other": (20, 1500)}[kind]
    tokens = {"short": (1, 60), "long": (20, 200), "other": (5, 100)}[kind]
    stream = chance.random() < 0.65
    going = chance.random()
    leaves = going < 0.12 or (stream and going < 0.2)
    return Ask(
        id=name,
        at=at,
        caller=chance.choice(CALLERS),
        model="deep" if kind == "other" else "swift",
        words=chance.randint(*words),
        # Who leaves would have got a long answer: an engine that does not hear of it would go on for seconds.
        tokens=chance.randint(*(_LEFT_TOKENS if leaves else tokens)),
        ends_by_itself=chance.random() < 0.2 and not leaves,
        chat=chance.random() < 0.7,
        stream=stream,
        router=chance.randrange(ROUTERS),
        keeps_connection=chance.random() < 0.5,
        leaves_after=chance.expovariate(5) if going < 0.12 else None,
        leaves_at_event=chance.randint(1, 30) if leaves and going >= 0.12 else None,
        pause=chance.uniform(0.3, 1.5) if going > 0.95 else 0.0,
    )
