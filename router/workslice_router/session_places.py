"""Where the requests of a session (header `x-workslice-session`) should go: to the replica that has what came before in its cache. Pure.

Routers agree on the first replica without talking: each ranks the replicas by a hash of session and replica. From then on it is the one
that last served the session here. It is a wish only: who chooses weighs it against the load.
"""

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from workslice_router.routing_table import Replica

REMEMBERED: Final = 600.0
"""Seconds: nine of ten turns follow the one before within five minutes."""
MOST_SESSIONS: Final = 16_384
"""The ones that nobody used longest are forgotten. About 4 MB when full."""
_MASK: Final = 2**64 - 1
_MIX: Final = 0xBF58476D1CE4E5B9


def session_number(model: str, session: bytes) -> int:
    """A number for a session of a model, the same in every router; never 0."""
    return int.from_bytes(blake2b(session, digest_size=8, key=model.encode("utf-8", "replace")[:64]).digest()) | 1


def first_place(session: int, replicas: Iterable[Replica]) -> Replica | None:
    """The replica in rotation that ranks highest for a session: when one comes or goes, no session moves between two others."""
    serving = (one for one in replicas if one.spec.ready and one.listed and not one.spec.draining)
    return max(serving, key=lambda one: _mixed(session ^ _seed(one.uid)), default=None)


class SessionPlaces:
    """The replica that last served each session."""

    def __init__(self) -> None:
        self._places: OrderedDict[int, tuple[Replica, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    def place(self, session: int, replicas: Iterable[Replica], now: float) -> Replica | None:
        """Where its next request should go; a session that is new here, or whose replica is gone, has its first place among `replicas`."""
        replica, until = self._places.get(session, (None, 0.0))
        if replica is not None and now < until and replica.listed and replica.spec.ready and not replica.spec.draining:
            return replica
        return first_place(session, replicas)

    def served(self, session: int, replica: Replica, now: float) -> None:
        """Its request goes there."""
        places = self._places
        places.pop(session, None)
        places[session] = (replica, now + REMEMBERED)
        if len(places) > MOST_SESSIONS:
            places.popitem(last=False)


@lru_cache(maxsize=8192)
def _seed(uid: str) -> int:
    return int.from_bytes(blake2b(uid.encode(), digest_size=8).digest())


def _mixed(number: int) -> int:
    """A well mixed number of 64 bits: neighbours have nothing in common."""
    number = (number ^ (number >> 30)) * _MIX & _MASK
    return number ^ (number >> 27)
