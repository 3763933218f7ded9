"""What draws a request to a replica beside its load: its session was there, or the beginning of its prompt was. Pure.

Both are wishes that whoever chooses weighs against the load. What is kept is bounded: see the two parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from workslice_router.prefix_places import PrefixPlaces
from workslice_router.prompt_prefix import Prefix
from workslice_router.replica_load import Work
from workslice_router.routing_table import Pool, Replica
from workslice_router.session_places import SessionPlaces, session_number
from workslice_router.soft_choice import LEAST_COMPUTED


@dataclass(frozen=True, slots=True)
class Ties:
    """What ties a request to replicas."""

    session: int
    """Number of its session; 0: none."""
    prefix: tuple[int, ...]
    """Hashes of its prompt's beginning."""
    tokens_per_character: float
    """Of the prompt."""

    @property
    def chance(self) -> float:
        """What a session draws instead of chance, in [0, 1): always the same."""
        return self.session / 2**64


def ties_of(model: str, session: bytes | None, prefix: Prefix | None, prompt: float) -> Ties:
    """The ties of a request with so many tokens of prompt, whose client names a session or not."""
    return Ties(
        session_number(model, session) if session else 0,
        prefix.hashes if prefix is not None else (),
        prompt / prefix.characters if prefix is not None else 0.0,
    )


class Affinity:
    """What this router has sent where of late."""

    def __init__(self) -> None:
        self._prefixes = PrefixPlaces()
        self._sessions = SessionPlaces()
        self._asked: Ties | None = None
        self._answer: Mapping[Replica, float] = {}

    def favourite(self, ties: Ties, pool: Pool, now: float) -> Replica | None:
        """Where the request's session is at home, by choice in the pool; None without a session."""
        return self._sessions.place(ties.session, pool.replicas, now) if ties.session else None

    def known(self, ties: Ties) -> Mapping[Replica, float]:
        """The tokens of the prompt that replicas may have in their caches."""
        if self._asked is not ties:  # who chooses asks, and who sends then asks again
            self._asked, self._answer = ties, self._prefixes.known(ties.prefix, ties.tokens_per_character)
        return self._answer

    def sent(self, ties: Ties, replica: Replica, work: Work, now: float) -> None:
        """The request goes there: what the replica knows of its prompt is no work, and it knows all of it from now on."""
        if ties.prefix:
            known = self.known(ties).get(replica)
            if known is not None:
                work.prompt, work.familiar = max(LEAST_COMPUTED, work.prompt - known), True
            self._prefixes.sent(ties.prefix, replica)
            self._asked = None
        if ties.session:
            self._sessions.served(ties.session, replica, now)
