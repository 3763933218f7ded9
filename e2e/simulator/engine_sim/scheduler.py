"""Decides what an engine computes in one step, as vLLM's scheduler does. Pure: the state is explicit, the time is passed in.

Running sequences come first, in order, each with one token or a chunk of its prompt, under a budget of tokens; then waiting ones
join while budget, places and KV blocks last. When blocks run out the least important running sequence gives up its own and waits
again, to be computed anew.
"""

import bisect
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from engine_sim.kv_blocks import (
    BlockPool,
    cached_prefix,
    free_beside,
    hold,
    prefix_hashes,
    release,
    remember,
    take,
)
from engine_sim.tokens import END_OF_TEXT


@dataclass(frozen=True, slots=True)
class Limits:
    """What the command line says about scheduling."""

    sequences: int
    batched_tokens: int
    long_prefill_threshold: int = 0
    """Prompt tokens a step for one sequence while there are others; 0: no limit."""
    by_priority: bool = False
    block_size: int = 16
    prefix_caching: bool = True
    watermark: float = 0.0
    """Share of the blocks that stays free when a sequence joins others."""


@dataclass(slots=True, eq=False)
class Sequence:
    """One answer being made. The first fields are given, the others are the scheduler's."""

    id: int
    prompt: list[int]
    max_tokens: int
    arrival: float
    """Seconds on the engine's clock."""
    next_token: Callable[[int], int]
    """The model: the token at a position of the answer."""
    ends_at: int | None = None
    """The position at which the model ends by itself; None: it does not."""
    priority: int = 0
    """The lowest goes first."""
    salt: str = ""
    output: list[int] = field(default_factory=list)
    computed: int = 0
    """Tokens whose KV is in the blocks."""
    blocks: list[int] = field(default_factory=list)
    prefixes: list[int] = field(default_factory=list)
    """A hash for each full block, see kv_blocks.prefix_hashes."""
    noted: int = 0
    """Blocks of which the pool knows the prefix."""
    cached_tokens: int | None = None
    """Prompt tokens that the prefix cache spared at the first start; None before it."""
    preemptions: int = 0
    started: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    finish_reason: str | None = None
    """`stop`, `length` or `abort`; None while it goes on."""

    @property
    def length(self) -> int:
        """Tokens of prompt and answer so far."""
        return len(self.prompt) + len(self.output)


@dataclass(slots=True)
class State:
    """Everything that lasts from step to step."""

    limits: Limits
    pool: BlockPool
    running: list[Sequence] = field(default_factory=list)
    waiting: list[Sequence] = field(default_factory=list)
    """Sorted: the first is the next to join."""

    @property
    def idle(self) -> bool:
        """Nothing to do."""
        return not self.running and not self.waiting


@dataclass(frozen=True, slots=True)
class Share:
    """What one sequence gets of a step."""

    sequence: Sequence
    tokens: int
    context: int
    """Tokens before them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step's work, and what it took to plan it."""

    shares: tuple[Share, ...]
    preempted: int = 0
    queried_tokens: int = 0
    """Tokens of new sequences looked up in the prefix cache."""
    cached_tokens: int = 0
    """Tokens found there."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an answer."""

    sequence: Sequence
    token: int
    since_last: float | None
    """Seconds since the token before; None for the first."""


def add(state: State, sequence: Sequence) -> None:
    """Put a new sequence in its place among the waiting ones."""
    bisect.insort(state.waiting, sequence, key=lambda one: _rank(state.limits, one))


def abort(state: State, sequence: Sequence) -> None:
    """Take a sequence out, wherever it is; one that has finished stays as it is."""
    if sequence.finish_reason is None:
        sequence.finish_reason = "abort"
        _remove(state, sequence)


def plan(state: State, now: float) -> Step:
    """Choose the next step's work and hold the blocks for it; call `complete` when the step is done, before the next plan."""
    limits, pool = state.limits, state.pool
    budget = limits.batched_tokens
    others = len(state.running) + len(state.waiting) > 1
    chunk = limits.long_prefill_threshold if others and limits.long_prefill_threshold else math.inf
    shares: dict[int, Share] = {}
    preempted = 0
    index = 0
    while index < len(state.running) and budget > 0:
        sequence = state.running[index]
        wanted = int(min(sequence.length - sequence.computed, chunk, budget))
        while not _grow(pool, sequence, sequence.computed + wanted, limits.block_size):
            victim = _least_important(state)
            index -= state.running.index(victim) < index
            _preempt(state, victim)
            preempted += 1
            if victim.id in shares:
                budget += shares.pop(victim.id).tokens
            if victim is sequence:
                break
        if not sequence.blocks:
            break
        shares[sequence.id] = Share(sequence, wanted, sequence.computed)
        budget -= wanted
        index += 1
    queried = cached = 0
    while state.waiting and budget > 0 and len(state.running) < limits.sequences and not preempted:
        sequence = state.waiting[0]
        found = _find_prefix(state, sequence)
        hit = len(found) * limits.block_size
        reserve = math.ceil(limits.watermark * pool.size) if state.running else 0
        if _blocks(sequence.length, limits.block_size) - len(found) + reserve > free_beside(pool, found):
            break
        wanted = int(min(sequence.length - hit, chunk, budget))
        hold(pool, found)
        sequence.blocks, sequence.computed, sequence.noted = found, hit, len(found)
        _grow(pool, sequence, hit + wanted, limits.block_size)
        state.running.append(state.waiting.pop(0))
        shares[sequence.id] = Share(sequence, wanted, hit)
        budget -= wanted
        if sequence.cached_tokens is None:
            sequence.cached_tokens = hit
            sequence.started = now
            queried += sequence.length if limits.prefix_caching else 0
            cached += hit
    return Step(tuple(shares.values()), preempted, queried, cached)


def complete(state: State, step: Step, now: float) -> list[Token]:
    """Finish the step: note what was computed, and return the tokens that came of it. Sequences aborted meanwhile are left out."""
    tokens = []
    for share in step.shares:
        sequence = share.sequence
        if sequence.finish_reason is not None:
            continue
        sequence.computed += share.tokens
        if state.limits.prefix_caching:
            _remember_full_blocks(state, sequence)
        if sequence.computed == sequence.length:
            tokens.append(_sample(state, sequence, now))
    return tokens


def unfinished_prompt_tokens(state: State) -> int:
    """Prompt tokens of the sequences that have not answered yet, as vLLM's admission counts them: whole prompts."""
    return sum(len(one.prompt) for one in (*state.running, *state.waiting) if not one.output)


def _sample(state: State, sequence: Sequence, now: float) -> Token:
    position = len(sequence.output)
    token = END_OF_TEXT if position == sequence.ends_at else sequence.next_token(position)
    since_last = None if sequence.last_token is None else now - sequence.last_token
    if sequence.first_token is None:
        sequence.first_token = now
    sequence.last_token = now
    sequence.output.append(token)
    if token == END_OF_TEXT:
        sequence.finish_reason = "stop"
    elif len(sequence.output) >= sequence.max_tokens:
        sequence.finish_reason = "length"
    if sequence.finish_reason is not None:
        _remove(state, sequence)
    return Token(sequence, token, since_last)


def _rank(limits: Limits, sequence: Sequence) -> tuple[float, float, int]:
    """The lowest joins first and is preempted last."""
    return (sequence.priority if limits.by_priority else 0, sequence.arrival, sequence.id)


def _least_important(state: State) -> Sequence:
    if state.limits.by_priority:
        return max(state.running, key=lambda one: _rank(state.limits, one))
    return state.running[-1]


def _preempt(state: State, sequence: Sequence) -> None:
    _remove(state, sequence)
    sequence.computed = 0
    sequence.preemptions += 1
    add(state, sequence)


def _remove(state: State, sequence: Sequence) -> None:
    for place in (state.running, state.waiting):
        if sequence in place:
            place.remove(sequence)
    release(state.pool, sequence.blocks)
    sequence.blocks = []


def _blocks(tokens: int, block_size: int) -> int:
    return -(-tokens // block_size)


def _grow(pool: BlockPool, sequence: Sequence, tokens: int, block_size: int) -> bool:
    """Give the sequence blocks for its first `tokens` tokens; False when there are not enough."""
    more = take(pool, max(0, _blocks(tokens, block_size) - len(sequence.blocks)))
    if more is None:
        return False
    sequence.blocks += more
    return True


def _find_prefix(state: State, sequence: Sequence) -> list[int]:
    """Known blocks for the beginning of what the sequence computes; never all of it, since the last token has to be computed."""
    if not state.limits.prefix_caching:
        return []
    _extend_prefixes(state, sequence)
    return cached_prefix(state.pool, sequence.prefixes[: (sequence.length - 1) // state.limits.block_size])


def _remember_full_blocks(state: State, sequence: Sequence) -> None:
    full = sequence.computed // state.limits.block_size
    if len(sequence.prefixes) < full:
        _extend_prefixes(state, sequence)
    for place in range(sequence.noted, full):
        remember(state.pool, sequence.blocks[place], sequence.prefixes[place])
    sequence.noted = full


def _extend_prefixes(state: State, sequence: Sequence) -> None:
    tokens = sequence.prompt + sequence.output
    sequence.prefixes = prefix_hashes(tokens, state.limits.block_size, sequence.salt, sequence.prefixes)
