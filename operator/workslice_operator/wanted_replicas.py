"""How many replicas a queue depth is worth. Pure.

A replica answers more slowly the more it has to do, so the same requests are fewer at a time on more replicas, and more on fewer. Where
the target is the load at which answers take twice as long as alone, what n replicas run below it comes to the target on
2·n·running / (n·target + running) of them. To divide by the target instead swings for ever under a load that does not change: what is
just too much for one replica looks, on two, as if it were little enough for one. Above the target it is divided, but asks for no more
than twice the replicas: what is left to do shows when they are there. Requests that wait say nothing of how fast anything is: they
are divided.
"""

from math import isqrt
from typing import Final

from workslice_api.pool import Scaling
from workslice_operator.weighed_depth import MILLI

_A_LITTLE_MILLI: Final = 125
"""More than a mean over looks strays under a constant load because requests are whole: a fifteenth of one at each look."""


def wanted_replicas(scaling: Scaling, depth_milli: int, queued: int, ready: int, present: int) -> int:
    """Replicas for a depth in thousandths, of which so many requests wait and `ready` replicas run the others; with headroom, without
    bounds. It is more than at `present` only where a little less would ask for those too, and fewer only where what chance may bring
    would not ask for those again.
    """

    def wanted(depth: int) -> int:
        return demanded_replicas(depth, queued, ready, scaling.target_per_replica) + scaling.headroom

    if depth_milli <= queued * MILLI:  # nothing runs, and what waits is counted
        return wanted(depth_milli)
    least, most = (
        wanted(depth_milli - _A_LITTLE_MILLI),
        wanted(depth_milli + max(_A_LITTLE_MILLI, _chance(depth_milli))),
    )
    return min(max(least, present), most)


def _chance(depth_milli: int) -> int:
    """How far a mean of a minute strays when requests come by chance: about half the square root of their number. One request at a time,
    as a single client sends them, is none of chance.
    """
    return isqrt(max(0, depth_milli - MILLI) * MILLI) // 2


def demanded_replicas(depth_milli: int, queued: int, ready: int, target: int) -> int:
    """The same without headroom."""
    target_milli = target * MILLI
    waiting = min(queued * MILLI, depth_milli) if ready else depth_milli
    running = depth_milli - waiting
    at_target = ready * target_milli
    if running >= at_target:
        return _rounded_up(min(running, 2 * at_target) + waiting, target_milli)
    # Both parts over one denominator, so that nothing is rounded but the sum.
    slowed = at_target + running
    return _rounded_up(2 * running * at_target + waiting * slowed, slowed * target_milli)


def _rounded_up(value: int, by: int) -> int:
    return -(-value // by)
