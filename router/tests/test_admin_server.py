"""The admin port over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from routed_pools import SHORT, Bench, replicas, table_of

from workslice_api.state import RouterState
from workslice_router.admin_server import Lifecycle, start_admin_server
from workslice_router.ejection import Outcome


class Admin:
    """A running admin server and what it shows."""

    def __init__(self) -> None:
        self.bench = Bench(table_of((SHORT, replicas("a"))))
        self.lifecycle = Lifecycle()
        self.port = 0


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    made = Admin()
    server = await start_admin_server(
        "127.0.0.1",
        0,
        name="router-1",
        table=made.bench.table,
        metrics=made.bench.metrics,
        lifecycle=made.lifecycle,
        clock=lambda: made.bench.now,
    )
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


@pytest.fixture
async def client(admin: Admin) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{admin.port}") as made:
        yield made


async def test_is_alive_whatever_else(admin: Admin, client: httpx.AsyncClient) -> None:
    admin.bench.table.synced = False
    admin.lifecycle.shutting_down = True
    assert (await client.get("/healthz")).status_code == 200


async def test_is_ready_once_synced_and_until_it_stops(admin: Admin, client: httpx.AsyncClient) -> None:
    assert (await client.get("/readyz")).status_code == 200
    admin.bench.table.synced = False
    answer = await client.get("/readyz")
    assert (answer.status_code, "CRDs" in answer.text) == (503, True)
    admin.bench.table.synced = True
    admin.lifecycle.shutting_down = True
    assert (await client.get("/readyz")).text == "shutting down\n"


async def test_shows_its_state_as_it_changes(admin: Admin, client: httpx.AsyncClient) -> None:
    lease = admin.bench.lease()
    state = RouterState.model_validate_json((await client.get("/state")).content)
    assert (state.router, state.pools["serving/short"].running) == ("router-1", 1)
    lease.settle(Outcome.OK)
    state = RouterState.model_validate_json((await client.get("/state")).content)
    assert state.pools["serving/short"].running == 0


async def test_whoever_asks_while_another_is_answered_sees_all_pools_too(
    admin: Admin, client: httpx.AsyncClient
) -> None:
    for number in range(2000):
        admin.bench.table.put_pool(replace(SHORT, key=f"serving/p{number}", model=f"m{number}"))
    admin.bench.table.commit()
    answers = await asyncio.gather(*(client.get("/state") for _ in range(4)))
    assert {len(RouterState.model_validate_json(answer.content).pools) for answer in answers} == {2001}


async def test_tells_at_once_of_a_request_for_a_pool_that_sleeps(admin: Admin, client: httpx.AsyncClient) -> None:
    table = admin.bench.table
    waiting = asyncio.create_task(client.get("/asked-in-vain?after=0&seconds=20"))
    state = RouterState.model_validate_json((await client.get("/state")).content)
    assert (state.asked_in_vain, waiting.done()) == (0, False)
    table.put_pool(replace(SHORT, desired_replicas=1, asleep=True))
    table.put_replicas(SHORT.key, [])
    table.commit()
    admin.bench.ask()
    assert (await asyncio.wait_for(waiting, 5)).text == "1\n"
    assert RouterState.model_validate_json((await client.get("/state")).content).asked_in_vain == 1


async def test_tells_at_once_of_what_was_missed_and_nothing_new_in_the_end(client: httpx.AsyncClient) -> None:
    assert (await client.get("/asked-in-vain?after=7&seconds=20")).text == "0\n"
    assert (await client.get("/asked-in-vain?after=0&seconds=0.01")).text == "0\n"


@pytest.mark.parametrize("query", ["", "?after=x&seconds=1", "?after=1", "?seconds=nan", "?after=0&seconds="])
async def test_a_wait_that_says_not_for_what_is_refused(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"/asked-in-vain{query}")).status_code == 400


async def test_shows_metrics_in_the_text_format(client: httpx.AsyncClient) -> None:
    answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'workslice_router_running_requests{pool="serving/short"} 0' in answer.text


async def test_counts_the_tasks_of_its_event_loop(client: httpx.AsyncClient) -> None:
    async def shown() -> int:
        (line,) = [
            one for one in (await client.get("/metrics")).text.splitlines() if one.startswith("workslice_router_tasks ")
        ]
        return int(line.split()[1])

    before = await shown()
    waiting = asyncio.create_task(asyncio.Event().wait())
    assert before > 0
    assert await shown() == before + 1
    waiting.cancel()


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("POST", "/state", 405), ("HEAD", "/healthz", 200)]
)
async def test_everything_else_is_refused(client: httpx.AsyncClient, method: str, path: str, status: int) -> None:
    assert (await client.request(method, path)).status_code == status


@pytest.mark.parametrize(
    "sent", [b"nonsense\r\n\r\n", b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", b"\x16\x03\x01\r\n\r\n"]
)
async def test_what_is_not_http_is_answered_and_closed(admin: Admin, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", admin.port)
    writer.write(sent)
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400")
    writer.close()
