"""Sends requests at their times, however long the answers take, and keeps what came back."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import uvloop
from measured import Answered
from offered import Offered
from rows import MODEL
from streamed import Answer, ask, question


@dataclass(frozen=True)
class Target:
    """Where requests are sent; `replica` is known when it is an engine."""

    host: str
    port: int
    replica: str = ""


@dataclass
class LeastRequests:
    """Takes the target with the fewest requests in flight, by chance among equals."""

    targets: Sequence[Target]
    chance: random.Random
    in_flight: dict[Target, int] = field(default_factory=dict)

    def take(self) -> Target:
        """The target for a request that is sent now."""
        target = min(self.targets, key=lambda one: (self.in_flight.get(one, 0), self.chance.random()))
        self.in_flight[target] = self.in_flight.get(target, 0) + 1
        return target

    def give_back(self, target: Target) -> None:
        """A request of the target is over."""
        self.in_flight[target] -= 1


def target_of(url: str) -> Target:
    """The router's endpoint."""
    parts = urlsplit(url)
    assert parts.hostname
    return Target(parts.hostname, parts.port or 80)


def run(requests: Sequence[Offered], balancer: LeastRequests, title: str) -> list[Answered]:
    """Send all requests and wait for all answers. Raises SystemExit when any fails: a number made with failures says nothing."""
    return uvloop.run(_run(requests, balancer, title))


async def _run(requests: Sequence[Offered], balancer: LeastRequests, title: str) -> list[Answered]:
    loop = asyncio.get_running_loop()
    bodies = [question(MODEL, one.prompt(title), one.answer) for one in requests]
    start = loop.time() + 0.5
    tasks = []
    for one, body in zip(requests, bodies, strict=True):
        await asyncio.sleep(max(0.0, start + one.arrival - loop.time()))
        tasks.append(loop.create_task(_one(balancer, body)))
    answers = await asyncio.gather(*tasks)
    wrong = [
        f"{one.kind} request of {one.arrival:.1f} s: {reason}"
        for one, (answer, _) in zip(requests, answers, strict=True)
        if (reason := _wrong(one, answer))
    ]
    if wrong:
        raise SystemExit(f"{len(wrong)} of {len(requests)} requests failed, such as:\n" + "\n".join(wrong[:5]))
    return [
        Answered(
            one.kind,
            answer.replica or target.replica,
            one.arrival,
            answer.first - start,
            answer.finished - start,
            answer.prompt_tokens + answer.answer_tokens,
        )
        for one, (answer, target) in zip(requests, answers, strict=True)
    ]


async def _one(balancer: LeastRequests, body: bytes) -> tuple[Answer, Target]:
    target = balancer.take()
    try:
        return await ask(target.host, target.port, body), target
    finally:
        balancer.give_back(target)


def _wrong(one: Offered, answer: Answer) -> str:
    if answer.failure:
        return answer.failure
    return "" if answer.answer_tokens == one.answer else f"{answer.answer_tokens} tokens instead of {one.answer}"
