"""Which queue depth counts: what is usual in the last minute, or what has come or gone beyond chance. Pure.

Requests come by chance: a pool that followed each look would grow with every clump of them and, since it shrinks slowly, stay large.
What is usual follows slowly; a change that is larger than chance, and still there at the second look, counts at once. The looks come
every two seconds; all is integers, so that a memory read back from a status is the very same.
"""

from collections.abc import Sequence
from math import isqrt
from typing import Final

from workslice_api.pool import ScalingMemory
from workslice_operator.observed import QueueSignal

MILLI: Final = 1000
_LOOKS: Final = 15
"""A look's share in what is usual is one in so many: as a mean over a minute of looks."""
_NEAR_MILLI: Final = 50
"""Nearer than this it is the same: a depth that does not change makes a memory that does not."""
_MORE: Final = 4
_LESS: Final = 2
"""A number of requests that come by chance strays by its square root. Twice that, two looks at the same requests reach by chance several
times an hour: what is more must be beyond four times it. What is less need not: it takes a whole window to make a pool smaller.
"""


def remember(memory: ScalingMemory, signal: QueueSignal) -> ScalingMemory:
    """The memory after another look; the same object when nothing changes."""
    depths = [*memory.last_depths[-1:], signal.depth]
    usual = _follow(memory.usual_depth_milli, depths)
    if usual == memory.usual_depth_milli and depths == memory.last_depths:
        return memory
    return memory.model_copy(update={"last_depths": depths, "usual_depth_milli": usual})


def weighed_depth(memory: ScalingMemory, signal: QueueSignal) -> int:
    """The queue depth to reckon with, in thousandths; before the first look it is the signal's."""
    return signal.depth * MILLI if memory.usual_depth_milli is None else memory.usual_depth_milli


def _follow(usual: int | None, depths: Sequence[int]) -> int:
    """What is usual after looks at these depths: the one before, if there was one, and the one now."""
    now = depths[-1] * MILLI
    if usual is None:
        return now
    nearer = usual + round((now - usual) / _LOOKS)
    if abs(now - nearer) < _NEAR_MILLI:
        nearer = now
    chance = isqrt(usual * MILLI)
    least, most = min(depths) * MILLI, max(depths) * MILLI
    # What counts at once is usual from then on. Were it only used meanwhile, the mean that lags behind would count again as soon as it
    # came near: after a drop it would ask for replicas that nobody needs.
    if least > usual + _MORE * chance:
        return max(least, nearer)
    return min(most, nearer) if most < usual - _LESS * chance else nearer
