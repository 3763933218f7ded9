"""One engine as vLLM schedules it, step by step, fast: steps of decoding only are taken many at a time.

Running sequences come first, each with a token or a chunk of its prompt under the step's budget; then waiting ones join while budget,
places and KV cache last; when the cache is full the youngest gives its part up and is computed anew. The simulated engine of
e2e/simulator decides the same for every single token; `check_engine_model.py` compares the two.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from workload import Request

from engine_sim.step_time import LLAMA_8B, SLICES, Model, Slice

_OVERHEAD = 2.5e-3
"""Seconds of a step beside computing and reading."""
_BLOCK = 16
_LONGEST_LEAP = 64


@dataclass(frozen=True)
class EngineSettings:
    """One kind of replica."""

    slice: str = "3g.40gb"
    batched_tokens: int = 2048
    long_prefill_threshold: int = 512
    sequences: int = 256
    by_priority: bool = False
    model: Model = LLAMA_8B
    utilization: float = 0.92
    other_bytes: float = 1.5e9

    @property
    def gpu(self) -> Slice:
        return SLICES[self.slice]

    @property
    def kv_tokens(self) -> int:
        left = self.gpu.memory * self.utilization - self.model.weight_bytes - self.other_bytes
        return int(left / self.model.kv_bytes_per_token)


@dataclass(eq=False, slots=True)
class Sequence:
    """A request inside an engine."""

    request: Request
    priority: int
    length: int
    """Tokens to compute before the next one can be sampled."""
    computed: int = 0
    order: int = 0
    """When it joined."""
    finish_step: int = 0
    """Count of steps after which its last token is there."""
    first_step: int = 0

    @property
    def rank(self) -> tuple[int, float, int]:
        return (self.priority, self.request.arrival, self.request.number)


@dataclass(eq=False)
class Engine:
    """The engine and its clock. `begin` plans a step and says when it ends; `end` finishes it."""

    settings: EngineSettings
    on_first: Callable[[Request, float], None]
    on_finish: Callable[[Request, float], None]
    waiting: list[Sequence] = field(default_factory=list)
    partial: list[Sequence] = field(default_factory=list)
    """Joined, with a part of their prompt to compute."""
    decoding: dict[Sequence, None] = field(default_factory=dict)
    busy: bool = False
    version: int = 0
    """Of the planned end: a leap that is cut short leaves an older one behind."""
    steps: int = 0
    preemptions: int = 0
    busy_seconds: float = 0.0

    def __post_init__(self) -> None:
        settings = self.settings
        gpu, model = settings.gpu, settings.model
        self._flop_per_token = 2 * model.parameters / gpu.flops
        self._flop_per_context = 4 * model.layers * model.hidden / gpu.flops
        self._weights = model.weight_bytes / gpu.bandwidth
        self._kv = model.kv_bytes_per_token / gpu.bandwidth
        self._capacity = settings.kv_tokens
        self._used = 0  # tokens whose KV is held, the rounding to blocks included by _padding
        self._context = 0  # of all that decode
        self._by_finish: list[tuple[int, int, Sequence]] = []
        self._joined = 0
        self._chunks: list[tuple[Sequence, int]] = []
        self._starved: set[Sequence] = set()
        self._leap = 0  # steps that are planned
        self._leaping = False  # they are steps of decoding only
        self._leap_start = 0.0
        self._leap_first = 0.0
        self._leap_slope = 0.0
        self._worst: list[tuple[int, float]] = []  # (step, seconds): durations that no later one exceeds

    def add(self, request: Request, priority: int, now: float) -> float | None:
        """A request arrives; returns when a running leap now ends, if that has changed."""
        sequence = Sequence(request, priority if self.settings.by_priority else 0, request.prompt)
        insort(self.waiting, sequence, key=lambda one: one.rank)
        if self.busy and self._leap > 1:
            done = self._steps_until(now)
            if done < self._leap:
                self._leap = done
                self.version += 1
                return self._leap_start + self._leap_seconds(done)
        return None

    def begin(self, now: float) -> float | None:
        """Plan from `now`; returns when the planned work ends, None when there is none."""
        self.version += 1
        self._chunks = []
        self._starved = set()
        if not self.waiting and not self.partial:
            if not self.decoding:
                self.busy = False
                return None
            return self._begin_leap(now)
        seconds = self._plan_step()
        self._leap, self._leap_start, self._leap_first, self._leap_slope = 1, now, seconds, 0.0
        self.busy = True
        return now + seconds

    def end(self, now: float) -> None:
        """The planned work is done."""
        count = len(self.decoding)
        steps = self._leap
        self.busy_seconds += now - self._leap_start
        last = self._leap_first + self._leap_slope * (steps - 1)
        self.steps += steps
        while self._worst and self._worst[-1][1] <= last:
            self._worst.pop()
        self._worst.append((self.steps, last))
        self._context += (count - len(self._starved)) * steps
        if self._leaping:
            self._used += count * steps
        self._leap, self._leaping = 0, False
        for sequence in self._starved:
            sequence.finish_step += 1
            heappush(self._by_finish, (sequence.finish_step, sequence.request.number, sequence))
        for sequence, tokens in self._chunks:
            sequence.computed += tokens
            if sequence.computed == sequence.length:
                self.partial.remove(sequence)
                self._sample_first(sequence, now)
        self._finish(now)

    # --- steps of decoding only -------------------------------------------------------------------------------------------

    def _begin_leap(self, now: float) -> float:
        count = len(self.decoding)
        self._tidy()
        room = (self._capacity - self._used - _BLOCK * count) // count
        if room < 1:
            seconds = self._plan_step()
            self._leap, self._leap_start, self._leap_first, self._leap_slope = 1, now, seconds, 0.0
            self.busy = True
            return now + seconds
        self._leap = max(1, min(self._by_finish[0][0] - self.steps, room, _LONGEST_LEAP))
        self._leaping = True
        computing = self._flop_per_token * count + self._flop_per_context * (self._context + count)
        reading = self._weights + self._kv * (self._context + count)
        self._leap_start = now
        self._leap_first = max(computing, reading) + _OVERHEAD
        self._leap_slope = count * (self._flop_per_context if computing > reading else self._kv)
        self.busy = True
        return now + self._leap_seconds(self._leap)

    def _leap_seconds(self, steps: int) -> float:
        return steps * self._leap_first + self._leap_slope * steps * (steps - 1) / 2

    def _steps_until(self, now: float) -> int:
        """Whole steps of the leap until the one that runs at `now` has ended."""
        steps = max(1, math.ceil((now - self._leap_start) / (self._leap_first + self._leap_slope * self._leap)))
        while steps < self._leap and self._leap_start + self._leap_seconds(steps) < now:
            steps += 1
        return steps

    def _tidy(self) -> None:
        while self._by_finish:
            step, _, sequence = self._by_finish[0]
            if sequence in self.decoding and sequence.finish_step == step:
                return
            heappop(self._by_finish)

    # --- one step with prompts in it ----------------------------------------------------------------------------------------

    def _plan_step(self) -> float:
        settings = self.settings
        preempted = False
        while True:
            shares, starved = self._running_shares()
            wanted = sum(tokens for _, tokens in shares) + len(self.decoding) - len(starved)
            padding = _BLOCK * (len(self.decoding) + len(self.partial))
            if self._used + wanted + padding <= self._capacity or len(self.decoding) + len(self.partial) == 1:
                break
            self._preempt()
            preempted = True
        budget = settings.batched_tokens - wanted
        self._used += wanted
        chunk = self._chunk()
        while (
            self.waiting
            and budget > 0
            and len(self.decoding) + len(self.partial) < settings.sequences
            and not preempted
        ):
            sequence = self.waiting[0]
            padding = _BLOCK * (len(self.decoding) + len(self.partial) + 1)
            if self._used + padding + sequence.length > self._capacity:
                break
            self.waiting.pop(0)
            self._joined += 1
            sequence.order = self._joined
            self.partial.append(sequence)
            tokens = min(sequence.length, chunk, budget)
            shares.append((sequence, tokens))
            self._used += tokens
            budget -= tokens
        self._chunks, self._starved = shares, starved
        decodes = len(self.decoding) - len(starved)
        context = self._context - sum(self._held(one) for one in starved)
        new = sum(tokens for _, tokens in shares) + decodes
        attended = context + decodes + sum(n * (one.computed + (n + 1) / 2) for one, n in shares)
        read = context + decodes + sum(one.computed + n for one, n in shares)
        computing = self._flop_per_token * new + self._flop_per_context * attended
        return max(computing, self._weights + self._kv * read) + _OVERHEAD

    def _chunk(self) -> int:
        threshold = self.settings.long_prefill_threshold
        others = len(self.decoding) + len(self.partial) + len(self.waiting) > 1
        return threshold if threshold and others else self.settings.batched_tokens

    def _running_shares(self) -> tuple[list[tuple[Sequence, int]], set[Sequence]]:
        """Chunks of those that have joined, and those that would decode but find the budget used up by earlier ones."""
        chunk = self._chunk()
        wants = [(one, min(one.length - one.computed, chunk)) for one in self.partial]
        if sum(tokens for _, tokens in wants) + len(self.decoding) <= self.settings.batched_tokens:
            return wants, set()
        budget = self.settings.batched_tokens
        shares, starved = [], set()
        left = dict(wants)
        for one in sorted([*self.decoding, *self.partial], key=lambda one: one.order):
            tokens = min(left.get(one, 1), budget)
            budget -= tokens
            if one in left:
                if tokens:
                    shares.append((one, tokens))
            elif not tokens:
                starved.add(one)
        return shares, starved

    def _preempt(self) -> None:
        everyone = [*self.decoding, *self.partial]
        by = (lambda one: one.rank) if self.settings.by_priority else (lambda one: one.order)
        victim = max(everyone, key=by)
        if victim in self.decoding:
            del self.decoding[victim]
            held = self._held(victim)
            self._context -= held
            victim.length = held + 1
            victim.request.preempted += 1
        else:
            self.partial.remove(victim)
            held = victim.computed
        self._used -= held
        victim.computed = 0
        self.preemptions += 1
        insort(self.waiting, victim, key=lambda one: one.rank)

    def _held(self, sequence: Sequence) -> int:
        """Tokens of a decoding sequence whose KV is in the cache."""
        request = sequence.request
        return request.prompt + request.answer - 1 - (sequence.finish_step - self.steps)

    # --- tokens -------------------------------------------------------------------------------------------------------------

    def _sample_first(self, sequence: Sequence, now: float) -> None:
        """All is computed: one token comes of it, and from now on one a step."""
        request = sequence.request
        already = sequence.length - request.prompt  # made before it was preempted
        if not already:
            request.first = now
            sequence.first_step = self.steps
            self.on_first(request, now)
        self.decoding[sequence] = None
        self._context += sequence.length
        sequence.finish_step = self.steps + request.answer - already - 1
        heappush(self._by_finish, (sequence.finish_step, request.number, sequence))

    def _finish(self, now: float) -> None:
        while self._by_finish and self._by_finish[0][0] <= self.steps:
            step, _, sequence = heappop(self._by_finish)
            if sequence not in self.decoding or sequence.finish_step != step:
                continue
            del self.decoding[sequence]
            request = sequence.request
            held = self._held(sequence)
            self._context -= held
            self._used -= held
            request.finished = now
            place = bisect_left(self._worst, (sequence.first_step + 1, 0.0))
            request.stall = self._worst[place][1] if place < len(self._worst) and request.answer > 1 else 0.0
            self.on_finish(request, now)
