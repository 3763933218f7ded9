"""What the requests that a router has sent to a replica leave to compute, as far as it can know: prompts first, then answers. Pure.

An engine tells nothing of a prompt until its first token comes, so that until then all of it counts. Engines compute several prompts
side by side, a chunk of each in every step, and the others wait for their turn.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from workslice_router.prompt_sizes import PromptSizes
from workslice_router.shown_load import ShownLoad


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """What a request class should get; both in seconds."""

    first_token: float
    per_token: float
    """For each token of the answer after the first."""


def strictest(levels: Iterable[ServiceLevel | None]) -> ServiceLevel | None:
    """The one with the earliest first token."""
    return min((level for level in levels if level is not None), key=lambda level: level.first_token, default=None)


@dataclass(frozen=True, slots=True)
class EnginePace:
    """How an engine works on prompts."""

    tokens_per_second: float
    """Prompt tokens, while it computes nothing else."""
    chunk: int
    """Tokens that one prompt gets of a step while others wait."""
    at_once: int
    """Prompts that have a part of each step."""
    learned: float = 0.0
    """When a first token last showed `tokens_per_second`."""


FIRST_PACE: Final = EnginePace(10_000.0, 512, 4)
"""Of a replica of which nothing is known."""


class Work:
    """One request on a replica: tokens of its prompts and expected of its answers, and the level of its class."""

    __slots__ = ("ahead", "answer", "familiar", "level", "prompt", "sent")

    def __init__(self, prompt: float, answer: float, level: ServiceLevel | None) -> None:
        self.prompt = prompt
        self.answer = answer
        self.level = level
        self.sent = 0.0
        self.ahead = 0.0
        """Prompt tokens to be computed before its first token, its own included, as expected when it was sent; 0 without a level."""
        self.familiar = False
        """A part of its prompt is taken to be in the engine's cache, and not counted."""


@dataclass(eq=False, slots=True)
class ReplicaLoad:
    """Everything that one router has running on one replica, and what its engine has shown of the rest."""

    prompts: dict[Work, None] = field(default_factory=dict)
    """Those without a first token, in order."""
    sizes: PromptSizes = field(default_factory=PromptSizes)
    """Of their prompts; urgency: by how many service levels a second of delay would set them back."""
    answering: int = 0
    haste: float = 0.0
    """Of those that answer: by how many service levels a second of delay for all would set them back."""
    held_tokens: float = 0.0
    """KV cache that all of them take, halfway through their answers."""
    doubted: float = float("-inf")
    """Until then the replica stood still: what was sent before does not show that its engine is slow."""
    shown: ShownLoad | None = None
    """What others have there, or are taken to have; None while nobody knows anything of that."""

    def add(self, work: Work, now: float, pace: EnginePace) -> None:
        """A request is sent."""
        if work.level is not None:  # only then the pace matters
            work.sent, work.ahead = now, tokens_ahead(self, work.prompt, pace)
        self.prompts[work] = None
        self.sizes.add(work.prompt, _urgency(work))
        self.held_tokens += work.prompt + work.answer / 2

    def answered(self, work: Work) -> bool:
        """Its first token is there; False when that was known."""
        if work not in self.prompts:
            return False
        self._no_longer_waits(work)
        self.answering += 1
        self.haste += _haste(work)
        return True

    def remove(self, work: Work) -> None:
        """It has ended, whatever it did."""
        if work in self.prompts:
            self._no_longer_waits(work)
        else:
            self.answering -= 1
            self.haste -= _haste(work)
        self.held_tokens -= work.prompt + work.answer / 2
        if not self.prompts and not self.answering:
            self.haste = self.held_tokens = 0.0  # no rest of rounding stays

    def _no_longer_waits(self, work: Work) -> None:
        del self.prompts[work]
        self.sizes.remove(work.prompt, _urgency(work))


def tokens_ahead(load: ReplicaLoad, prompt: float, pace: EnginePace) -> float:
    """Prompt tokens that an engine computes until a prompt that comes now has its first token, its own included."""
    if not load.prompts:
        return prompt
    until = prompt
    if len(load.prompts) >= pace.at_once:  # its turn comes when enough of the others are done
        until += load.sizes.smallest_first[-pace.at_once]
    return prompt + load.sizes.up_to(until)


def _urgency(work: Work) -> float:
    return 0.0 if work.level is None else 1 / work.level.first_token


def _haste(work: Work) -> float:
    return 0.0 if work.level is None else 1 / (max(1.0, work.answer) * work.level.per_token)
