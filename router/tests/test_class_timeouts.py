import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from router_under_test import chat, pool, running_router, until
from scripted_engine import DONE, LAST_CHUNK, STREAM_HEAD, EngineRequest, Wire, chunk, scripted_engine, token

from workslice_router.class_times import NO_TIMES, ClassTimes, most_patient
from workslice_router.routing_table import Pool, model_routes
from workslice_router.static_pools import StaticPoolsError, load_static_pools

FILE = """
profiles: [{{name: small, spec: {{model: {{source: /models/tiny}}, slice: {{profiles: [1g.10gb]}}}}}}]
pools:
  - name: short
    spec: {{profileRef: {{name: small}}, model: tiny, requestClass: {{name: short, maxTotalTokens: 1024, {more}}}}}
    replicas: ["127.0.0.1:8001"]
"""


async def never(request: EngineRequest, wire: Wire) -> None:
    """Takes the request and says nothing."""


async def only_comments(request: EngineRequest, wire: Wire) -> None:
    wire.write(STREAM_HEAD)
    while True:
        wire.write(chunk(b": keep-alive\n\n"))
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("streams", [True, False])
async def test_an_engine_that_does_not_begin_in_time_is_given_up_and_not_blamed(streams: bool):
    spec = pool(times=ClassTimes(first_byte=0.2))
    async with (
        scripted_engine(only_comments if streams else never) as engine,
        running_router(engine, spec=spec) as router,
    ):
        for _ in range(4):
            answer = await router.ask(chat(stream=streams))
            assert (answer.status, answer.headers["x-workslice-reason"]) == (504, "engine_timeout")
            assert "0.2 s" in answer.error["message"]
        await until(lambda: engine.requests[-1].gone.is_set(), "the engine's connection to be cut")
        assert not router.table.pools["default/short"].replicas[0].health.ejected
        assert len(engine.requests) == 4


async def test_the_first_byte_may_take_long_where_only_pauses_are_bounded_and_the_other_way_round():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD)
        await asyncio.sleep(0.5)
        wire.write(chunk(token("a")))
        for _ in range(4):
            await asyncio.sleep(0.1)
            wire.write(chunk(token("b")))
        wire.write(chunk(DONE) + LAST_CHUNK)

    async with scripted_engine(behaviour) as engine:
        async with running_router(engine, spec=pool(times=ClassTimes(idle=0.35))) as router:
            assert (await router.ask(chat(stream=True))).complete
        async with running_router(engine, spec=pool(times=ClassTimes(first_byte=0.8))) as router:
            assert (await router.ask(chat(stream=True))).complete


async def test_a_pause_that_is_longer_than_the_class_allows_ends_the_stream_with_an_error_event():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(token("a")))

    spec = pool(times=ClassTimes(idle=0.2))
    async with scripted_engine(behaviour) as engine, running_router(engine, spec=spec) as router:
        answer = await router.ask(chat(stream=True))
        await until(lambda: engine.requests[0].gone.is_set())
    event = json.loads(answer.body.split(b"\n\n")[1].removeprefix(b"data: "))
    assert (answer.complete, event["error"]["code"]) == (False, "engine_timeout")


async def test_a_class_may_be_more_patient_than_the_router():
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD)
        await asyncio.sleep(0.4)
        wire.write(chunk(token("a")))
        await asyncio.sleep(0.4)
        wire.write(chunk(DONE) + LAST_CHUNK)

    spec = pool(times=ClassTimes(first_byte=5.0, idle=5.0))
    async with scripted_engine(behaviour) as engine, running_router(engine, spec=spec, idle_timeout=0.2) as router:
        assert (await router.ask(chat(stream=True))).complete


def test_the_pools_of_a_class_are_as_patient_as_the_most_patient_of_them() -> None:
    one = pool("a", class_name="short", times=ClassTimes(first_byte=3.0, idle=20.0, keep_alive=9.0))
    two = pool("b", class_name="short", times=ClassTimes(idle=10.0, keep_alive=5.0))
    other = pool("c", class_name="long", class_tokens=9000, context_tokens=9000)
    routes = model_routes("tiny", [Pool(spec) for spec in (one, two, other)])
    assert [(one.name, one.times) for one in routes.classes] == [
        ("short", ClassTimes(first_byte=3.0, idle=20.0, keep_alive=5.0)),
        ("long", NO_TIMES),
    ]


times = st.none() | st.floats(1, 100)


@given(st.lists(st.builds(ClassTimes, times, times, times), max_size=4))
def test_no_pool_cuts_what_another_one_allows(every: list[ClassTimes]) -> None:
    merged = most_patient(every)
    for one in every:
        for allowed, given_time in ((merged.first_byte, one.first_byte), (merged.idle, one.idle)):
            assert given_time is None or (allowed is not None and allowed >= given_time)
    assert (merged == NO_TIMES) is all(one == NO_TIMES for one in every)


def test_the_times_of_a_class_come_from_the_api(tmp_path: Path) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text(FILE.format(more="timeouts: {firstByte: 2m, idle: 90s}, keepAlive: 10ms"))
    (one,) = load_static_pools(file)
    assert one.spec.times == ClassTimes(120.0, 90.0, 1.0)
    file.write_text(FILE.format(more="priority: 0"))
    assert load_static_pools(file)[0].spec.times == NO_TIMES


def test_a_misspelt_timeout_in_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text(FILE.format(more="timeouts: {firstbyte: 2m}"))
    with pytest.raises(StaticPoolsError, match=r"no field 'requestClass\.timeouts\.firstbyte'"):
        load_static_pools(file)
