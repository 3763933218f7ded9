"""Signs of life for the clients of streams that wait, where the class asks for them: they commit the status, but no answer."""

import asyncio
import json

import openai
import pytest
from router_under_test import Answer, WireClient, chat, pool, post, running_router, until
from scripted_engine import (
    BUSY,
    DONE,
    HELLO,
    LAST_CHUNK,
    STREAM_HEAD,
    Behaviour,
    EngineRequest,
    ScriptedEngine,
    Wire,
    answers,
    chunk,
    dies_after,
    response,
    scripted_engine,
    stream,
    token,
)

from workslice_router.class_times import ClassTimes
from workslice_router.openai_errors import Reason, refusal

COMMENT = b": keep-alive\n\n"
SPEC = pool(times=ClassTimes(keep_alive=0.05))
ERROR = b'{\n "error": {"message": "EngineCore died",\r\n "type": "InternalServerError", "code": 500}}'


class Gate:
    """Waits for the test before it does what the inner behaviour does."""

    def __init__(self, then: Behaviour) -> None:
        self.then = then
        self.open = asyncio.Event()

    async def __call__(self, request: EngineRequest, wire: Wire) -> None:
        await self.open.wait()
        await self.then(request, wire)


async def read_until(client: WireClient, answer: Answer, wanted: int) -> None:
    """Read on until so many comments have come."""
    while answer.body.count(COMMENT) < wanted:
        await client._chunk(answer)


async def rest_of(client: WireClient, answer: Answer) -> None:
    try:
        while not answer.complete:
            await client._chunk(answer)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass


def last_event(answer: Answer) -> dict[str, str]:
    event: dict[str, str] = json.loads(answer.body.split(b"\n\n")[-2].removeprefix(b"data: "))["error"]
    return event


async def test_a_stream_that_prefills_gets_comments_then_its_answer():
    gate = Gate(answers(stream(token("a"), DONE)))
    async with (
        scripted_engine(gate) as engine,
        running_router(engine, spec=SPEC) as router,
        router.client() as client,
    ):
        await client.send(post(chat(stream=True), headers=["x-request-id: mine"]))
        answer = await client.head()
        await read_until(client, answer, 3)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert (answer.headers["x-request-id"], answer.headers["x-workslice-class"]) == ("mine", "short")
        assert "x-workslice-replica" not in answer.headers  # another one may still answer
        gate.open.set()
        await rest_of(client, answer)
        assert answer.complete
        await client.send(post(chat(stream=True)))  # the connection lives on
        assert (await client.answer()).complete
    comments, _, events = answer.body.partition(b"data: ")
    assert b"data: " + events == token("a") + DONE
    assert b"\n: x-workslice-replica: engine-0\n" in comments
    assert b"\n: x-workslice-pool: default/short\n" in comments


async def test_a_stream_that_waits_in_the_queue_gets_comments_too():
    gate = Gate(answers(stream(token("a"), DONE)))
    spec = pool(times=ClassTimes(keep_alive=0.05), max_concurrent=1)
    async with (
        scripted_engine(gate) as engine,
        running_router(engine, spec=spec) as router,
        router.client() as first,
        router.client() as second,
    ):
        await first.send(post(chat(stream=True)))
        await until(lambda: engine.requests)
        await second.send(post(chat(stream=True)))
        await until(lambda: router.admission.waiting == 1)
        waiting = await second.head()
        await read_until(second, waiting, 2)
        assert router.admission.waiting == 1
        gate.open.set()
        await rest_of(second, waiting)
    assert waiting.complete
    assert waiting.body.endswith(token("a") + DONE)


@pytest.mark.parametrize(
    ("spec", "fields"), [(pool(), {"stream": True}), (SPEC, {})], ids=["a class that does not ask", "no stream"]
)
async def test_nobody_else_gets_a_comment(spec: object, fields: dict[str, bool]):
    gate = Gate(answers(stream(token("a"), DONE) if fields else response(HELLO)))
    async with scripted_engine(gate) as engine, running_router(engine, spec=spec) as router:  # type: ignore[arg-type]
        asked = asyncio.create_task(router.ask(chat(**fields)))
        await until(lambda: engine.requests)
        await asyncio.sleep(0.3)
        gate.open.set()
        answer = await asked
    assert b": keep-alive" not in answer.body
    assert answer.headers["x-workslice-replica"] == "engine-0"


async def test_a_quick_answer_has_no_comment_and_all_its_headers():
    async with (
        scripted_engine(answers(stream(token("a"), DONE))) as engine,
        running_router(engine, spec=pool(times=ClassTimes(keep_alive=5.0))) as router,
    ):
        answer = await router.ask(chat(stream=True))
    assert (answer.body, answer.headers["x-workslice-replica"]) == (token("a") + DONE, "engine-0")


async def test_comments_stop_with_the_first_event():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        await asyncio.sleep(0.2)
        wire.write(STREAM_HEAD + chunk(token("a")))
        await asyncio.sleep(0.3)
        wire.write(chunk(DONE) + LAST_CHUNK)

    async with scripted_engine(behaviour) as engine, running_router(engine, spec=SPEC) as router:
        answer = await router.ask(chat(stream=True))
    assert answer.complete
    assert answer.body.endswith(token("a") + DONE)
    assert COMMENT in answer.body


RETRIED = {
    "reset": dies_after(b"", reset=True),
    "busy": answers(response(BUSY, 503)),
    "ended without an event": answers(STREAM_HEAD + LAST_CHUNK),
}


@pytest.mark.parametrize("bad", RETRIED.values(), ids=RETRIED.keys())
async def test_another_replica_still_answers_after_the_first_comment(bad: Behaviour):
    gate = Gate(bad)
    async with (
        scripted_engine(gate) as one,
        scripted_engine(gate) as two,
        running_router(one, two, spec=SPEC) as router,
        router.client() as client,
    ):
        await client.send(post(chat(stream=True)))
        answer = await client.head()
        await read_until(client, answer, 1)
        other = two if one.requests else one
        other.behaviour = answers(stream(token("ok"), DONE))
        gate.open.set()
        await rest_of(client, answer)
    assert answer.complete
    assert answer.body.endswith(token("ok") + DONE)
    assert b": x-workslice-replica: engine-%d\n" % [one, two].index(other) in answer.body


FAILED = {
    "reset": (dies_after(b"", reset=True), "engine_failed"),
    "engine error": (answers(response(ERROR, 500)), 500),
    "error of another shape": (answers(response(b'{"detail":"no"}', 422)), 422),
    "an error as long as an answer": (answers(response(b'{"error":"' + b"x" * 70_000 + b'"}', 400)), "engine_failed"),
    "no stream at all": (answers(response(HELLO)), "engine_failed"),
    "an empty answer": (answers(response(b"")), "engine_failed"),
    "error event": (answers(stream(b"data: " + ERROR.replace(b"\r\n", b"").replace(b"\n", b"") + b"\n\n", DONE)), 500),
}


@pytest.mark.parametrize(("bad", "code"), FAILED.values(), ids=FAILED.keys())
async def test_a_failure_after_the_first_comment_is_an_error_event_and_no_end(bad: Behaviour, code: str | int):
    gate = Gate(bad)
    async with (
        scripted_engine(gate) as engine,
        running_router(engine, spec=SPEC) as router,
        router.client() as client,
    ):
        await client.send(post(chat(stream=True)))
        answer = await client.head()
        await read_until(client, answer, 1)
        gate.open.set()
        await rest_of(client, answer)
        assert not answer.complete
        assert last_event(answer)["code"] == code
        assert b"[DONE]" not in answer.body
        metrics = "".join(router.data_path.metrics.render(router.table, 0.0))
        assert 'pool="default/short",class="short",status="200"' in metrics  # what the client has seen


async def test_a_wait_in_vain_after_the_first_comment_is_an_error_event():
    gate = Gate(answers(stream(token("a"), DONE)))
    spec = pool(times=ClassTimes(keep_alive=0.05), max_concurrent=1, queue_wait=0.4)
    async with (
        scripted_engine(gate) as engine,
        running_router(engine, spec=spec) as router,
        router.client() as first,
        router.client() as second,
    ):
        await first.send(post(chat(stream=True)))
        await until(lambda: engine.requests)
        await second.send(post(chat(stream=True)))
        waiting = await second.head()
        await rest_of(second, waiting)
        gate.open.set()
        await first.answer()
    assert COMMENT in waiting.body
    assert (waiting.complete, last_event(waiting)["code"]) == (False, "queue_timeout")


@pytest.mark.parametrize("queued", [False, True])
async def test_a_router_that_stops_says_so_in_the_stream(queued: bool):
    gate = Gate(answers(stream(token("a"), DONE)))
    spec = pool(times=ClassTimes(keep_alive=0.05), max_concurrent=1)
    async with (
        scripted_engine(gate) as engine,
        running_router(engine, spec=spec) as router,
        router.client() as first,
        router.client() as second,
    ):
        await first.send(post(chat(stream=not queued)))
        await until(lambda: engine.requests)
        client = second if queued else first
        if queued:
            await second.send(post(chat(stream=True)))
        answer = await client.head()
        await read_until(client, answer, 1)
        reason = refusal(Reason.SHUTTING_DOWN, retry_after=1)
        router.admission.refuse_all_waiting(reason)
        for exchange in tuple(router.data_path.exchanges):
            exchange.interrupt(reason)
        await rest_of(client, answer)
    assert (answer.complete, last_event(answer)["code"]) == (False, "shutting_down")


async def test_a_client_of_http_1_0_gets_comments_and_the_end_of_the_connection():
    gate = Gate(answers(stream(token("a"), DONE)))
    async with (
        scripted_engine(gate) as engine,
        running_router(engine, spec=SPEC) as router,
        router.client() as client,
    ):
        await client.send(post(chat(stream=True), version="1.0"))
        answer = await client.head()
        gate.open.set()
        answer.body = await client.reader.read()
    assert (answer.headers["connection"], answer.headers.get("transfer-encoding")) == ("close", None)
    assert answer.body.startswith(COMMENT)
    assert answer.body.endswith(token("a") + DONE)


@pytest.mark.parametrize("queued", [False, True])
async def test_a_client_that_leaves_after_comments_frees_its_place_within_a_second(queued: bool):
    gate = Gate(answers(stream(token("a"), DONE)))
    spec = pool(times=ClassTimes(keep_alive=0.05), max_concurrent=1)
    async with (
        scripted_engine(gate) as engine,
        running_router(engine, spec=spec) as router,
        router.client() as first,
        router.client() as second,
    ):
        await first.send(post(chat(stream=not queued)))
        await until(lambda: engine.requests)
        client = second if queued else first
        if queued:
            await second.send(post(chat(stream=True)))
        await read_until(client, await client.head(), 2)
        client.leave()
        async with asyncio.timeout(1):
            if queued:
                await until(lambda: router.admission.waiting == 0)
            else:
                await engine.requests[0].gone.wait()


async def a_chunk(request: EngineRequest, wire: Wire) -> None:
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "tiny",
        "choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}],
    }
    wire.write(stream(b"data: " + json.dumps(document).encode() + b"\n\n", DONE))


async def through_the_official_client(engine: ScriptedEngine, gate: Gate) -> str:
    async with running_router(engine, spec=SPEC) as router:
        url = f"http://127.0.0.1:{router.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0) as client:
            parts = await client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            await asyncio.sleep(0.2)  # comments come meanwhile
            gate.open.set()
            return "".join([part.choices[0].delta.content or "" async for part in parts])


async def test_the_official_client_reads_the_stream_with_its_comments():
    gate = Gate(a_chunk)
    async with scripted_engine(gate) as engine:
        assert await through_the_official_client(engine, gate) == "hello"


async def test_the_official_client_raises_the_error_event():
    gate = Gate(dies_after(b"", reset=True))
    async with scripted_engine(gate) as engine:
        with pytest.raises(openai.APIError, match="failed before it answered") as error:
            await through_the_official_client(engine, gate)
    assert error.value.code == "engine_failed"
