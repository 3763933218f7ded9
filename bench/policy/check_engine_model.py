"""The fast engine model beside the simulated engine's own scheduler, which computes every token: how far apart are their times?

Run it by itself: `python bench/policy/check_engine_model.py`. Both get the same requests for one replica.
"""

import sys
from statistics import mean

from baselines import Baseline
from engine_model import EngineSettings
from simulation import simulate
from workload import Request, Traffic, requests

from engine_sim.kv_blocks import BlockPool
from engine_sim.scheduler import Limits, Sequence, State, add, complete, plan
from engine_sim.step_time import seconds, work

_BLOCK = 16


def token_by_token(asked: list[Request], settings: EngineSettings) -> None:
    """Fill in the times of the requests as the simulated engine's scheduler would."""
    limits = Limits(
        settings.sequences,
        settings.batched_tokens,
        settings.long_prefill_threshold,
        settings.by_priority,
        _BLOCK,
        prefix_caching=False,
    )
    state = State(limits, BlockPool(settings.kv_tokens // _BLOCK))
    by_id = {one.number: one for one in asked}
    now, coming = 0.0, list(reversed(asked))
    while coming or not state.idle:
        if state.idle:
            now = max(now, coming[-1].arrival)
        while coming and coming[-1].arrival <= now:
            one = coming.pop()
            add(state, Sequence(one.number, [0] * one.prompt, one.answer, one.arrival, lambda _: 7))
        step = plan(state, now)
        now += seconds(settings.gpu, work(settings.model, [(share.tokens, share.context) for share in step.shares]))
        for token in complete(state, step, now):
            request = by_id[token.sequence.id]
            request.first = request.first or now
            request.finished = now


def main() -> None:
    for threshold in (0, 512):
        for rate in (1.0, 2.1, 3.0):
            settings = EngineSettings(long_prefill_threshold=threshold)
            fast, exact = (requests(Traffic(rate), 60, 1, 0.0) for _ in range(2))
            run = simulate(fast, [settings], Baseline(lambda _: (0,), "turns"))
            token_by_token(exact, settings)
            firsts = [abs(a.first - b.first) for a, b in zip(fast, exact, strict=True)]
            ends = [abs(a.finished - b.finished) for a, b in zip(fast, exact, strict=True)]
            print(
                f"threshold {threshold:4}, {rate:3} requests a second: {len(fast)} requests, {run.preemptions} preemptions; "
                f"first tokens apart by {mean(firsts) * 1e3:.2f} ms on average, {max(firsts) * 1e3:.1f} at most; "
                f"ends by {mean(ends) * 1e3:.2f}, {max(ends) * 1e3:.1f}",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
