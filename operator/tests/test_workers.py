import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from workslice_operator.work_queue import WorkQueue
from workslice_operator.workers import Workers

Handle = Callable[[str], Awaitable[float | None]]


@asynccontextmanager
async def working(handle: Handle, failures: list[Exception] | None = None) -> AsyncIterator[Workers[str]]:
    queue: WorkQueue[str] = WorkQueue(lambda: 0.5)
    heard = failures if failures is not None else []
    workers = Workers(queue, handle, lambda _, error: heard.append(error))
    task = asyncio.create_task(workers.run())
    try:
        async with asyncio.timeout(10):
            yield workers
    finally:
        task.cancel()


async def test_a_burst_of_events_becomes_few_runs() -> None:
    runs: list[str] = []
    seen_last = asyncio.Event()

    async def handle(key: str) -> None:
        runs.append(key)
        if key == "last":
            seen_last.set()
        await asyncio.sleep(0)

    async with working(handle) as workers:
        for number in range(10_000):
            workers.add(f"pool-{number % 10}")
        workers.add("last")
        await seen_last.wait()
    assert len(runs) <= 30


async def test_different_keys_run_beside_each_other_and_one_key_does_not() -> None:
    running: list[str] = []
    together = asyncio.Event()

    async def handle(key: str) -> None:
        assert key not in running
        running.append(key)
        if {"a", "b"} <= set(running):
            together.set()
        await together.wait()
        running.remove(key)

    async with working(handle) as workers:
        workers.add("a")
        workers.add("b")
        await together.wait()


async def test_a_key_comes_back_after_the_seconds_it_asked_for() -> None:
    times: list[float] = []
    twice = asyncio.Event()

    async def handle(key: str) -> float:
        times.append(asyncio.get_running_loop().time())
        if len(times) == 2:
            twice.set()
        return 0.05

    async with working(handle) as workers:
        workers.add("a")
        await twice.wait()
    assert times[1] - times[0] >= 0.045


async def test_a_failure_is_told_and_retried() -> None:
    attempts: list[str] = []
    healed = asyncio.Event()
    failures: list[Exception] = []

    async def handle(key: str) -> None:
        attempts.append(key)
        if len(attempts) == 1:
            raise RuntimeError("first time")
        healed.set()

    async with working(handle, failures) as workers:
        workers.add("a")
        await healed.wait()
        assert workers.alive
    assert [str(one) for one in failures] == ["first time"]


async def test_a_worker_that_waits_for_a_far_key_hears_of_a_near_one() -> None:
    ran = asyncio.Event()

    async def handle(key: str) -> None:
        assert key == "near"
        ran.set()

    async with working(handle) as workers:
        workers.add_after("far", 3600)
        await asyncio.sleep(0)
        workers.add_after("near", 0.01)
        await ran.wait()
