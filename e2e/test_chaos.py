"""Everything goes wrong at once, under load: routers keep their promises all the same.

Real routers and simulated engines, as processes of the host; no cluster. `make chaos` storms for longer. The same seed plans the same
storm: CHAOS_SEED, CHAOS_SECONDS.
"""

import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chaos_plan import plan
from chaos_storm import Storm
from chaos_verdict import broken_promises

SECONDS = float(os.environ.get("CHAOS_SECONDS", "25"))
SEED = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10**6))
MOST_GROWTH_KIB = 8 * 1024
"""0.2 MiB were measured; what grows with the number of requests is far above it in a long storm."""
_STATUS = {"SIGTERM": 0, "SIGKILL": -9}


@pytest.fixture
async def storm(tmp_path: Path) -> AsyncIterator[Storm]:
    made = Storm(plan(SEED, SECONDS), tmp_path)
    try:
        await made.start()
        yield made
    finally:
        await made.stop()


async def test_a_storm_of_faults_breaks_no_promise_and_leaves_nothing_behind(storm: Storm) -> None:
    print(f"\nCHAOS_SEED={SEED} CHAOS_SECONDS={SECONDS:g}")
    at_start, memory = await storm.held(), [router.memory() for router in storm.routers.all]
    await storm.run()
    storm.callers.close()
    left = await storm.until_at_rest(at_start)
    arrivals = [arrival for pod in storm.pods.all for arrival in pod.arrivals()]
    tries = storm.callers.tries
    print(dict(Counter(f"{one.status} {one.end}" for one in tries)))
    print(dict(Counter(str(one.fault) for one in storm.record.troubles)), f"lag {storm.record.lag:.2f} s")
    logs = [line for router in storm.routers.all for line in router.log_lines()]
    grown = [router.memory() - before for router, before in zip(storm.routers.all, memory, strict=True)]
    print(f"memory {memory} KiB, grown by {grown}")
    broken = broken_promises(storm.record, tries, arrivals, logs) + left
    broken += [f"a router has grown by {more} KiB" for more in grown if more > MOST_GROWTH_KIB]
    broken += [
        f"{router.name} ended with {status} after {how}"
        for router in storm.routers.all
        for how, status in router.exits
        if status != _STATUS[how]
    ]
    assert not broken, "\n".join([f"CHAOS_SEED={SEED}: {len(broken)} broken promises", *broken[:20]])
