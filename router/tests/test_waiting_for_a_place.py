import asyncio
from pathlib import Path

from router_under_test import Answer, RunningRouter, pool, running_router, until
from scripted_engine import HELLO, EngineRequest, ScriptedEngine, Wire, response, scripted_engine

from workslice_router.api_keys import hash_key
from workslice_router.routing_table import ReplicaSpec


class Gate:
    """An engine that answers one request for every permit."""

    def __init__(self, body: bytes = HELLO) -> None:
        self.permits = asyncio.Semaphore(0)
        self.body = body

    async def __call__(self, request: EngineRequest, wire: Wire) -> None:
        await self.permits.acquire()
        wire.write(response(self.body))


async def running_and_waiting(
    router: RunningRouter, engine: ScriptedEngine, waiting: int
) -> list["asyncio.Task[Answer]"]:
    tasks = [asyncio.create_task(router.ask())]
    await until(lambda: engine.requests)
    for number in range(waiting):
        tasks.append(asyncio.create_task(router.ask()))
        await until(lambda: router.admission.waiting == number + 1)  # noqa: B023
    return tasks


async def test_requests_beyond_the_engines_room_wait_and_say_for_how_long():
    gate = Gate()
    async with scripted_engine(gate) as engine, running_router(engine, spec=pool(max_concurrent=1)) as router:
        tasks = await running_and_waiting(router, engine, 2)
        await asyncio.sleep(0.05)
        for _ in tasks:
            gate.permits.release()
        got = [await task for task in tasks]
    assert [answer.status for answer in got] == [200, 200, 200]
    assert int(got[0].headers["x-workslice-queue-ms"]) == 0
    assert int(got[1].headers["x-workslice-queue-ms"]) >= 40


async def test_a_full_queue_answers_429_with_retry_after():
    gate = Gate()
    spec = pool(max_concurrent=1, queue_depth=1)
    async with scripted_engine(gate) as engine, running_router(engine, spec=spec) as router:
        tasks = await running_and_waiting(router, engine, 1)
        answer = await router.ask()
        for _ in tasks:
            gate.permits.release()
        await asyncio.gather(*tasks)
    assert (answer.status, answer.headers["x-workslice-reason"], answer.error["type"]) == (
        429,
        "queue_full",
        "rate_limit_error",
    )
    assert int(answer.headers["retry-after"]) >= 1


async def test_without_keys_a_client_that_fills_the_queue_makes_room_for_another_address():
    gate = Gate()
    spec = pool(max_concurrent=1, queue_depth=2)
    async with scripted_engine(gate) as engine, running_router(engine, spec=spec) as router:
        tasks = await running_and_waiting(router, engine, 2)
        other = asyncio.create_task(router.ask(address="127.0.0.2"))
        pushed_out = await tasks.pop()
        for _ in range(3):
            gate.permits.release()
        got = [await task for task in (*tasks, other)]
    assert (pushed_out.status, pushed_out.headers["x-workslice-reason"]) == (429, "queue_full")
    assert [answer.status for answer in got] == [200, 200, 200]


async def test_a_caller_whose_answers_prove_long_gives_way_to_the_others():
    gate = Gate(HELLO[:-1] + b',"usage":{"prompt_tokens":9,"completion_tokens":5000,"total_tokens":5009}}')
    async with scripted_engine(gate) as engine, running_router(engine, spec=pool(max_concurrent=1)) as router:
        running = asyncio.create_task(router.ask())
        await until(lambda: engine.requests)
        waiting: dict[str, asyncio.Task[Answer]] = {}
        for name, address in (("anna-1", 1), ("bert-1", 2), ("anna-2", 1), ("bert-2", 2)):
            task = router.ask(address=f"127.0.0.{address}", headers=[f"x-request-id: {name}"])
            waiting[name] = asyncio.create_task(task)
            await until(lambda: router.admission.waiting == len(waiting))
        gate.permits.release()
        await running
        gate.permits.release()
        await waiting["anna-1"]
        gate.body = HELLO
        for _ in range(3):
            gate.permits.release()
        await asyncio.gather(*waiting.values())
    order = [dict(request.headers)["x-request-id"].rsplit("-", 1)[0] for request in engine.requests[1:]]
    assert order == ["anna-1", "bert-1", "bert-2", "anna-2"]


async def test_a_caller_is_its_key_wherever_it_calls_from(tmp_path: Path):
    (tmp_path / "anna").write_text(hash_key("wsk-anna", bytes(16)))
    gate = Gate()
    spec = pool(max_concurrent=1, queue_depth=1)
    async with scripted_engine(gate) as engine, running_router(engine, spec=spec, keys=tmp_path) as router:
        key = ["authorization: Bearer wsk-anna"]
        running = asyncio.create_task(router.ask(headers=key))
        await until(lambda: engine.requests)
        waiting = [asyncio.create_task(router.ask(headers=key, address=f"127.0.0.{number}")) for number in (2, 3, 4)]
        await until(lambda: sum(task.done() for task in waiting) == 2)
        for _ in range(2):
            gate.permits.release()
        got = [await task for task in (running, *waiting)]
    assert sorted(answer.status for answer in got) == [200, 200, 429, 429]


async def test_a_wait_that_is_too_long_ends_with_429():
    gate = Gate()
    spec = pool(max_concurrent=1, queue_wait=0.2)
    async with scripted_engine(gate) as engine, running_router(engine, spec=spec) as router:
        tasks = await running_and_waiting(router, engine, 1)
        answer = await tasks[1]
        gate.permits.release()
        await tasks[0]
    assert (answer.status, answer.headers["x-workslice-reason"]) == (429, "queue_timeout")
    assert "x-request-id" in answer.headers


async def test_a_waiting_request_goes_to_a_replica_that_comes():
    gate, other = Gate(), Gate()
    other.permits.release()
    async with (
        scripted_engine(gate) as engine,
        scripted_engine(other) as new,
        running_router(engine, spec=pool(max_concurrent=1)) as router,
    ):
        tasks = await running_and_waiting(router, engine, 1)
        specs = [ReplicaSpec("engine-0", "127.0.0.1", engine.port), ReplicaSpec("new", "127.0.0.1", new.port)]
        router.table.put_replicas("default/short", specs)
        router.table.commit()
        answer = await tasks[1]
        gate.permits.release()
        await tasks[0]
    assert answer.headers["x-workslice-replica"] == "new"


async def test_a_running_request_outlives_its_pool_object():
    gate = Gate()
    async with scripted_engine(gate) as engine, running_router(engine) as router:
        task = asyncio.create_task(router.ask())
        await until(lambda: engine.requests)
        router.table.remove_pool("default/short")
        router.table.commit()
        refused = await router.ask()
        gate.permits.release()
        answer = await task
        await until(lambda: router.admission.in_flight == 0)
    assert refused.status == 404
    assert (answer.status, answer.body, answer.headers["x-workslice-pool"]) == (200, HELLO, "default/short")


async def test_a_pool_without_replicas_answers_503():
    async with running_router() as router:
        answer = await router.ask()
    assert (answer.status, answer.headers["x-workslice-reason"]) == (503, "no_replicas")
    assert int(answer.headers["retry-after"]) >= 1


async def test_a_key_is_needed_when_keys_are_configured(tmp_path: Path):
    async with scripted_engine() as engine, running_router(engine, keys=tmp_path) as router:
        answer = await router.ask(headers=["authorization: Bearer wsk-wrong"])
        large = await router.ask(b"x" * 3_000_000)
    assert (answer.status, large.status) == (401, 401)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.error["code"] == "invalid_api_key"
    assert not engine.requests
