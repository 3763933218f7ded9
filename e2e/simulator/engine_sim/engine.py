"""The engine behind the server: makes the scheduler's steps take their time, and hands out the tokens."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import Final

from engine_sim import errors, scheduler, step_time
from engine_sim.errors import EngineError
from engine_sim.faults import Faults
from engine_sim.kv_blocks import BlockPool
from engine_sim.metrics import EngineMetrics
from engine_sim.scheduler import Sequence, State
from engine_sim.settings import Settings

_MOST_BEHIND_SECONDS: Final = 0.1
"""How far the engine's clock may fall behind the real one on a busy machine, before it gives the rest up."""


@dataclass(frozen=True, slots=True)
class Piece:
    """New tokens of one of a request's sequences."""

    index: int
    tokens: list[int]
    finish_reason: str | None


class Answer:
    """What comes of one request. Whoever reads slowly gets more at once, as from vLLM."""

    def __init__(self, sequences: Many[Sequence]) -> None:
        self.sequences = sequences
        self._place = {sequence.id: index for index, sequence in enumerate(sequences)}
        self._new: dict[int, list[int]] = {}
        self._news = asyncio.Event()
        self._error: EngineError | None = None

    async def pieces(self) -> AsyncIterator[Piece]:
        """The pieces until every sequence has ended. Raises EngineError when the engine dies before."""
        left = len(self.sequences)
        while left:
            await self._news.wait()
            self._news.clear()
            new, self._new = self._new, {}
            for index, tokens in new.items():
                reason = self.sequences[index].finish_reason
                left -= reason is not None
                yield Piece(index, tokens, reason)
            if self._error is not None:
                raise self._error

    def give(self, sequence: Sequence, token: int) -> None:
        """Add a token."""
        self._new.setdefault(self._place[sequence.id], []).append(token)
        self._news.set()

    def fail(self, error: EngineError) -> None:
        """End it with an error."""
        self._error = error
        self._news.set()


class Engine:
    """One engine. `run` works until the engine dies."""

    def __init__(self, settings: Settings, metrics: EngineMetrics) -> None:
        self.dead = False
        self.draining = False
        self.faults = settings.faults
        self._settings, self._metrics = settings, metrics
        self._state = State(settings.limits, BlockPool(settings.kv_blocks))
        self._answers: dict[int, Answer] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._died = asyncio.Event()
        self._death_told = asyncio.Event()
        self._tokens = 0  # since the faults were set

    def check_admission(self, sequences: int) -> None:
        """Raise EngineError when the engine is dead, or when so many more are beyond a limit of the queue."""
        if self.dead:
            raise errors.broken(errors.CORE_DIED)
        most, state = self._settings.most_queued_requests, self._state
        if most is not None and len(state.running) + len(state.waiting) + sequences > most:
            self._metrics.note_rejection("max_num_queued_reqs")
            raise errors.busy(errors.TOO_MANY_REQUESTS)
        most = self._settings.most_queued_tokens
        if most is not None and scheduler.unfinished_prompt_tokens(state) >= most:
            self._metrics.note_rejection("max_num_queued_tokens")
            raise errors.busy(errors.TOO_MANY_TOKENS)

    def ask(self, sequences: Many[Sequence]) -> Answer:
        """Put sequences in the queue. Whoever asks must `drop` the answer in the end, however it ends."""
        answer = Answer(sequences)
        for sequence in sequences:
            scheduler.add(self._state, sequence)
            self._answers[sequence.id] = answer
        self._idle.clear()
        self._wake.set()
        return answer

    def drop(self, answer: Answer) -> None:
        """Forget an answer; what is not finished is aborted."""
        for sequence in answer.sequences:
            self._answers.pop(sequence.id, None)
            if sequence.finish_reason is None:
                scheduler.abort(self._state, sequence)
        if not self.dead:
            self._note_load()

    @property
    def load(self) -> dict[str, float]:
        """Requests that wait, and the share of the KV cache in use, under the names of load reports."""
        state = self._state
        return {"num_requests_waiting": float(len(state.waiting)), "kv_cache_usage_perc": state.pool.usage}

    def set_faults(self, faults: Faults) -> None:
        """Let other things go wrong from now on."""
        self.faults = faults
        self._tokens = 0
        self._wake.set()

    async def died(self, patience: float) -> None:
        """Wait for the engine's death, and then until somebody was told of it, for `patience` seconds at most."""
        await self._died.wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._death_told.wait(), patience)

    def note_error_told(self) -> None:
        """Note that a client got an error, which tells of the engine's death if it is dead."""
        if self.dead:
            self._death_told.set()

    async def drain(self, patience: float) -> None:
        """Take nothing new, and wait until what runs is done, for `patience` seconds at most. Then the engine stands still."""
        self.draining = True
        try:
            await asyncio.wait_for(self._idle.wait(), patience)
        except TimeoutError:
            self.set_faults(self.faults.model_copy(update={"hangs_after": 0}))

    async def run(self) -> None:
        """Work until the engine dies."""
        clock = asyncio.get_running_loop().time
        due = clock()
        while not await self._stopped():
            if self._state.idle:
                self._wake.clear()
                await self._wake.wait()
                due = max(due, clock())
                continue
            step = scheduler.plan(self._state, clock())
            done = step_time.work(self._settings.model, ((share.tokens, share.context) for share in step.shares))
            due = (
                max(due, clock() - _MOST_BEHIND_SECONDS)
                + step_time.seconds(self._settings.gpu, done) / self._settings.speed
            )
            await asyncio.sleep(max(0.0, due - clock()))
            now = clock()
            tokens = scheduler.complete(self._state, step, now)
            for token in tokens:
                answer = self._answers.get(token.sequence.id)
                if answer is not None:
                    answer.give(token.sequence, token.token)
            self._tokens += len(tokens)
            self._metrics.note_step(step, done, tokens, now)
            self._note_load()

    async def _stopped(self) -> bool:
        """Do what the faults say; True when the engine is dead."""
        while True:
            if _reached(self.faults.process_dies_after, self._tokens):
                os.kill(os.getpid(), signal.SIGKILL)
            if _reached(self.faults.core_dies_after, self._tokens):
                self._die()
            if self.dead or not _reached(self.faults.hangs_after, self._tokens):
                return self.dead
            self._wake.clear()
            await self._wake.wait()

    def _die(self) -> None:
        self.dead = True
        for answer in set(self._answers.values()):
            answer.fail(errors.broken(errors.CORE_DIED))
        self._died.set()

    def _note_load(self) -> None:
        self._metrics.note_load(self._state)
        if self._state.idle:
            self._idle.set()


def _reached(limit: int | None, tokens: int) -> bool:
    return limit is not None and tokens >= limit
