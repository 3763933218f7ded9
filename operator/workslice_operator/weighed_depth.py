"""Which queue depth counts: what is usual in the last minute, or what has come or gone beyond chance. Pure.

Requests come by chance: a pool that followed each look would grow with every clump of them and, since it shrinks slowly, stay large.
What is usual follows slowly; a change that is larger than chance, and still there at the second look, counts at once. The looks come
every two seconds; all is integers, so that a memory read back from a status is the very same.
"""

from math import isqrt
from typing import Final

from workslice_api.pool import ScalingMemory
from workslice_operator.observed import QueueSignal

MILLI: Final = 1000
_LOOKS: Final = 15
"""A look's share in what is usual is one in so many: as a mean over a minute of looks."""
_NEAR_MILLI: Final = 50
"""Nearer than this it is the same: a depth that does not change makes a memory that does not."""
_DEVIATIONS: Final = 2
"""A number of requests that come by chance strays by its square root: more than so many times that is no chance."""


def remember(memory: ScalingMemory, signal: QueueSignal) -> ScalingMemory:
    """The memory after another look; the same object when nothing changes."""
    depth = signal.depth
    usual = memory.usual_depth_milli if memory.usual_depth_milli is not None else depth * MILLI
    usual += round((depth * MILLI - usual) / _LOOKS)
    if abs(depth * MILLI - usual) < _NEAR_MILLI:
        usual = depth * MILLI
    depths = [*memory.last_depths[-1:], depth]
    if usual == memory.usual_depth_milli and depths == memory.last_depths:
        return memory
    return memory.model_copy(update={"last_depths": depths, "usual_depth_milli": usual})


def weighed_depth(memory: ScalingMemory, signal: QueueSignal) -> int:
    """The queue depth to reckon with, in thousandths; before the first look it is the signal's."""
    usual = memory.usual_depth_milli
    if usual is None or not memory.last_depths:
        return signal.depth * MILLI
    chance = _DEVIATIONS * isqrt(usual * MILLI)
    least, most = min(memory.last_depths) * MILLI, max(memory.last_depths) * MILLI
    if least > usual + chance:
        return least
    return most if most < usual - chance else usual
