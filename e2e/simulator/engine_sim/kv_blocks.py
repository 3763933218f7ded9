"""The blocks of an engine's KV cache: who holds them, which prefixes they still know, and which are given away first. Pure.

A block that nobody holds keeps what it knows until its place is needed; the one released longest ago goes first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class BlockPool:
    """All blocks of one engine. Change it through the functions of this module only."""

    size: int
    holders: list[int] = field(init=False)
    """How many sequences hold each block."""
    free: dict[int, None] = field(init=False)
    """Blocks that nobody holds, in the order in which they are given away."""
    known: dict[int, int] = field(init=False, default_factory=dict)
    """Block by the hash of the prefix that ends in it."""
    prefix_of: dict[int, int] = field(init=False, default_factory=dict)
    """The same the other way round."""

    def __post_init__(self) -> None:
        self.holders = [0] * self.size
        self.free = dict.fromkeys(range(self.size))

    @property
    def usage(self) -> float:
        """Share of the blocks that sequences hold, 0 to 1."""
        return 1 - len(self.free) / self.size


def prefix_hashes(tokens: Sequence[int], block_size: int, salt: str, known: Sequence[int] = ()) -> list[int]:
    """A hash for every full block of the tokens, each of the whole prefix up to it; `known` are the first ones, if computed before.

    The salt goes into the first block, and so into all.
    """
    hashes = list(known)
    for start in range(len(hashes) * block_size, len(tokens) - block_size + 1, block_size):
        before: object = hashes[-1] if hashes else salt
        hashes.append(hash((before, tuple(tokens[start : start + block_size]))))
    return hashes


def cached_prefix(pool: BlockPool, hashes: Iterable[int]) -> list[int]:
    """The blocks that hold the longest known beginning of the prefixes."""
    blocks = []
    for prefix in hashes:
        block = pool.known.get(prefix)
        if block is None:
            break
        blocks.append(block)
    return blocks


def free_beside(pool: BlockPool, blocks: Iterable[int]) -> int:
    """How many free blocks are left for others once somebody holds these."""
    return len(pool.free) - sum(1 for block in blocks if not pool.holders[block])


def hold(pool: BlockPool, blocks: Iterable[int]) -> None:
    """Add a holder to blocks that are known."""
    for block in blocks:
        if not pool.holders[block]:
            del pool.free[block]
        pool.holders[block] += 1


def take(pool: BlockPool, count: int) -> list[int] | None:
    """Hold `count` blocks for new content, which makes them forget what they knew; None (and nothing taken) when too few are free."""
    if count > len(pool.free):
        return None
    taken = []
    for _ in range(count):
        block = next(iter(pool.free))
        del pool.free[block]
        pool.holders[block] = 1
        _forget(pool, block)
        taken.append(block)
    return taken


def release(pool: BlockPool, blocks: Sequence[int]) -> None:
    """Take one holder away from each; the end of a prefix is given away before its beginning."""
    for block in reversed(blocks):
        pool.holders[block] -= 1
        if not pool.holders[block]:
            pool.free[block] = None


def remember(pool: BlockPool, block: int, prefix: int) -> None:
    """Note that a held block has the end of this prefix; the first block that has it stays the known one."""
    if prefix not in pool.known and block not in pool.prefix_of:
        pool.known[prefix] = block
        pool.prefix_of[block] = prefix


def _forget(pool: BlockPool, block: int) -> None:
    prefix = pool.prefix_of.pop(block, None)
    if prefix is not None:
        del pool.known[prefix]
