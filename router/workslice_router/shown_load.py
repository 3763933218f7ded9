"""What the gauges of an engine add to what this router knows of a replica: the requests that others have there. Pure.

Several routers, and anybody else who may reach an engine, send to it without a word to each other. Each knows its own requests at once and
exactly; the engine tells every second or two how many it has in all. The difference belongs to the others. What those requests are
made of nobody says: they are taken to be like this router's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from workslice_router.engine_gauges import EngineGauges
from workslice_router.mean_request import MeanRequest


@dataclass(frozen=True, slots=True)
class ShownLoad:
    """What others have on a replica."""

    requests: int
    tokens: int
    """Of their prompts and answers, as this router counts its own."""
    prompts: float
    """Those without a first token, as far as the engine makes them wait."""
    prompt: float
    """Tokens of one of their prompts."""
    answering: float
    """The rest of the requests."""
    held_tokens: float
    """KV cache that all of them take, halfway through their answers."""
    kv_used: float
    """Share of the KV cache that this router's own requests do not explain; 0 when the engine does not tell."""
    kv_per_token: float
    """Share that a token takes; 0 when unknown."""


def mean_shown(known: Sequence[ShownLoad]) -> ShownLoad | None:
    """What is to be expected on a replica whose engine does not tell, beside others that do; None when none does."""
    if not known:
        return None
    part = 1 / len(known)
    return ShownLoad(
        requests=round(part * sum(one.requests for one in known)),
        tokens=round(part * sum(one.tokens for one in known)),
        prompts=part * sum(one.prompts for one in known),
        prompt=part * sum(one.prompt for one in known),
        answering=part * sum(one.answering for one in known),
        held_tokens=part * sum(one.held_tokens for one in known),
        kv_used=part * sum(one.kv_used for one in known),
        kv_per_token=part * sum(one.kv_per_token for one in known),
    )


def shown_load(gauges: EngineGauges, own: int, own_held: float, mean: MeanRequest) -> ShownLoad:
    """What gauges say of others while this router had `own` sequences there, which hold so many tokens.

    A request that waits at the engine has its whole prompt to come. One that runs has its first token soon, if not already.
    """
    total = gauges.running + gauges.waiting
    others = max(0, total - own)
    waiting = others * gauges.waiting / total if total else 0.0
    per_token = 1 / gauges.kv_tokens if gauges.kv_tokens else 0.0
    used = max(0.0, (gauges.kv_used or 0.0) - own_held * per_token)
    return ShownLoad(
        requests=others,
        tokens=round(others * (mean.prompt + mean.answer)),
        prompts=waiting,
        prompt=mean.prompt,
        answering=others - waiting,
        held_tokens=others * (mean.prompt + mean.answer / 2),
        kv_used=used,
        kv_per_token=per_token,
    )
