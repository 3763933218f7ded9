"""Which replicas have computed the beginning of a prompt of late, so that their engines may still have it in their caches. Pure."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from workslice_router.prompt_prefix import LENGTHS
from workslice_router.routing_table import Replica

MOST_BEGINNINGS: Final = 32_768
"""Of all models together; the ones that nobody asked for longest are forgotten. About 6 MB when full, twice that when each is on
many replicas."""
MOST_PLACES: Final = 8
"""Replicas that are remembered for each."""

_Places = tuple[tuple[Replica, int], ...]
"""Replicas, each with how many requests it had been sent by then; the latest first."""


class PrefixPlaces:
    """Beginnings by their hashes. A replica that has since got as many requests as its cache holds is taken to have forgotten."""

    def __init__(self) -> None:
        self._places: OrderedDict[int, _Places] = (
            OrderedDict()
        )  # a dict takes long to find its first key after many are gone

    def __len__(self) -> int:
        return len(self._places)

    def known(self, hashes: Sequence[int], tokens_per_character: float) -> dict[Replica, float]:
        """The tokens at the beginning of the prompt that each replica may still know."""
        found: dict[Replica, float] = {}
        for length, hashed in zip(LENGTHS, hashes, strict=False):
            places = self._places.get(hashed)
            if places is None:  # nor anything longer, but for what was forgotten by chance
                break
            for replica, dispatched in places:
                if replica.dispatched - dispatched <= replica.remembers:
                    found[replica] = length * tokens_per_character
        return found

    def sent(self, hashes: Sequence[int], replica: Replica) -> None:
        """A prompt that begins like this goes there."""
        places, entry = self._places, (replica, replica.dispatched)
        for hashed in reversed(hashes):  # the shortest one is forgotten last
            known = places.pop(hashed, ())
            if known and known[0][0] is replica:
                places[hashed] = (entry, *known[1:])
            else:
                others = (one for one in known if one[0] is not replica)
                places[hashed] = (entry, *others)[:MOST_PLACES]
        while len(places) > MOST_BEGINNINGS:
            places.popitem(last=False)
