"""What a request may lose before it is refused for want of a place."""

import asyncio
import json
import logging
from dataclasses import replace

import pytest
from routed_pools import Asker, Bench, table_of, view
from routed_pools import replicas as specs
from router_under_test import CHAT, Answer, RunningRouter, chat, pool, running_router, until
from scripted_engine import (
    DONE,
    HELLO,
    EngineRequest,
    ScriptedEngine,
    Wire,
    answers,
    response,
    scripted_engine,
    stream,
    token,
)

from workslice_router.admission import Lease
from workslice_router.class_times import ClassTimes
from workslice_router.degrade import lesser_place
from workslice_router.ejection import Outcome
from workslice_router.openai_errors import ERRORS, Reason, Refusal
from workslice_router.routing_table import PoolSpec, ReplicaSpec

LONG = pool("long", class_tokens=2000, context_tokens=2000, max_concurrent=1, queue_depth=0)
SHORT = pool("short", class_tokens=100, context_tokens=2000, max_concurrent=1, queue_depth=0)
OTHER = pool(
    "other", model="other", aliases=("spare",), class_tokens=2000, context_tokens=2000, max_concurrent=1, queue_depth=0
)


class Engine:
    """Answers when the test says so, with a stream to those who want one."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, request: EngineRequest, wire: Wire) -> None:
        await self.go_on.wait()
        streams = b'"stream": true' in request.body
        wire.write(stream(token("late"), DONE) if streams else response(HELLO))


def add(router: RunningRouter, spec: PoolSpec, engine: ScriptedEngine) -> None:
    router.table.put_pool(spec)
    router.table.put_replicas(spec.key, [ReplicaSpec(f"of-{spec.key}", "127.0.0.1", engine.port)])
    router.table.commit()


async def full(router: RunningRouter, engine: ScriptedEngine, body: bytes) -> "asyncio.Task[Answer]":
    """Occupy the only place of an engine's pool."""
    before = len(engine.requests)
    asked = asyncio.create_task(router.ask(body))
    await until(lambda: len(engine.requests) == before + 1)
    return asked


BIG = chat(max_tokens=1000)


@pytest.mark.parametrize(
    "bound",
    [{"max_tokens": 1000}, {"max_completion_tokens": 1000}, {"max_tokens": 1000, "max_completion_tokens": 900}, {}],
)
async def test_a_shorter_answer_fits_a_smaller_class_that_has_a_place(bound: dict[str, int]):
    busy = Engine()
    spec = replace(LONG, degrade_tokens=50)
    async with (
        scripted_engine(busy) as large,
        scripted_engine() as small,
        running_router(large, spec=spec) as router,
    ):
        add(router, SHORT, small)
        occupied = await full(router, large, BIG)
        body = json.dumps({"model": "tiny-alias", "messages": [{"role": "user", "content": "hi"}], **bound}).encode()
        answer = await router.ask(body)
        metrics = "".join(router.data_path.metrics.render(router.table, 0.0))
        busy.go_on.set()
        assert "x-workslice-degraded" not in (await occupied).headers
    assert (answer.status, answer.headers["x-workslice-pool"]) == (200, "default/short")
    assert answer.headers["x-workslice-degraded"] == "max_tokens=50"
    sent = json.loads(small.requests[0].body)
    assert (sent["model"], sent["max_tokens"]) == ("tiny", 50)
    assert "max_completion_tokens" not in sent
    assert 'workslice_router_degraded_total{pool="default/long",step="max_tokens"} 1' in metrics


@pytest.mark.parametrize(
    "fields",
    [{"max_tokens": 40}, {"min_tokens": 60, "max_tokens": 1000}],
    ids=["short already", "a longer answer is wanted"],
)
async def test_an_answer_that_cannot_be_cut_is_refused(fields: dict[str, int]):
    busy = Engine()
    spec = replace(LONG, degrade_tokens=50, class_tokens=20, context_tokens=2000)
    async with scripted_engine(busy) as large, running_router(large, spec=spec) as router:
        occupied = await full(router, large, BIG)
        answer = await router.ask(chat(**fields))
        busy.go_on.set()
        await occupied
    assert (answer.status, answer.headers["x-workslice-reason"]) == (429, "queue_full")
    assert "x-workslice-degraded" not in answer.headers


async def test_a_cut_that_finds_no_place_either_is_no_cut():
    busy = Engine()
    async with (
        scripted_engine(busy) as large,
        running_router(large, spec=replace(LONG, degrade_tokens=50)) as router,
    ):
        occupied = await full(router, large, BIG)
        answer = await router.ask(BIG)
        busy.go_on.set()
        await occupied
    assert answer.status == 429
    assert "x-workslice-degraded" not in answer.headers


@pytest.mark.parametrize("fallback", ["other", "spare"])
async def test_the_fallback_model_answers_at_full_length(fallback: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG, "workslice_router.requests")
    busy = Engine()
    spec = replace(LONG, degrade_tokens=50, fallback_model=fallback)
    async with (
        scripted_engine(busy) as large,
        scripted_engine() as spare,
        running_router(large, spec=spec) as router,
    ):
        add(router, OTHER, spare)
        occupied = await full(router, large, BIG)
        answer = await router.ask(BIG)
        busy.go_on.set()
        await occupied
    assert (answer.status, answer.headers["x-workslice-pool"]) == (200, "default/other")
    assert answer.headers["x-workslice-degraded"] == f"model={fallback}"
    assert spare.requests[0].body == BIG.replace(b'"tiny"', b'"other"')
    logged = [record.__dict__["fields"] for record in caplog.records if record.getMessage() == "request"]
    assert [one["pool"] for one in logged if one.get("degraded") == f"model={fallback}"] == ["default/other"]


async def test_a_class_that_was_asked_for_is_kept_where_the_fallback_model_has_it():
    busy = Engine()
    async with (
        scripted_engine(busy) as large,
        scripted_engine() as one,
        scripted_engine() as two,
        running_router(large, spec=replace(LONG, fallback_model="other")) as router,
    ):
        add(router, OTHER, one)
        occupied = await full(router, large, BIG)
        headers = ["x-workslice-class: long"]
        without = await router.ask(BIG, headers=headers)
        add(router, replace(OTHER, key="default/other-long", class_name="long", class_tokens=1900), two)
        with_it = await router.ask(BIG, headers=headers)
        busy.go_on.set()
        await occupied
    assert [answer.headers["x-workslice-class"] for answer in (without, with_it)] == ["other", "long"]


async def test_models_that_fall_back_to_each_other_end_with_429():
    busy = Engine()
    spec = replace(LONG, fallback_model="other")
    async with (
        scripted_engine(busy) as large,
        scripted_engine(busy) as spare,
        running_router(large, spec=spec) as router,
    ):
        add(router, replace(OTHER, fallback_model="tiny"), spare)
        occupied = [await full(router, large, BIG), await full(router, spare, chat(model="other"))]
        answer = await router.ask(BIG)
        busy.go_on.set()
        await asyncio.gather(*occupied)
    assert (answer.status, answer.headers["x-workslice-reason"]) == (429, "queue_full")
    assert "x-workslice-degraded" not in answer.headers


async def test_who_waits_for_the_fallback_in_vain_is_not_sent_on_to_its_own_fallback():
    busy = Engine()
    async with (
        scripted_engine(busy) as large,
        scripted_engine(busy) as spare,
        scripted_engine() as free,
        running_router(large, spec=replace(LONG, fallback_model="other")) as router,
    ):
        add(router, replace(OTHER, fallback_model="third", queue_depth=5, queue_wait=0.2), spare)
        add(router, replace(OTHER, key="default/third", model="third", aliases=(), class_name="third"), free)
        occupied = [await full(router, large, BIG), await full(router, spare, chat(model="other"))]
        answer = await router.ask(BIG)
        busy.go_on.set()
        await asyncio.gather(*occupied)
    assert (answer.status, answer.headers["x-workslice-reason"]) == (429, "queue_timeout")
    assert not free.requests


async def test_embeddings_are_refused_rather_than_made_by_another_model():
    busy = Engine()
    async with (
        scripted_engine(busy) as large,
        scripted_engine() as spare,
        running_router(large, spec=replace(LONG, fallback_model="other")) as router,
    ):
        add(router, OTHER, spare)
        occupied = await full(router, large, BIG)
        answer = await router.ask(b'{"model": "tiny", "input": "a text"}', path="/v1/embeddings")
        busy.go_on.set()
        await occupied
    assert (answer.status, answer.headers["x-workslice-reason"]) == (429, "queue_full")
    assert not spare.requests


@pytest.mark.parametrize(("falls_back", "rejected"), [(False, [1, 0]), (True, [0, 0])], ids=["refused", "helped"])
async def test_a_request_counts_once_as_rejected_however_many_pools_had_no_room(falls_back: bool, rejected: list[int]):
    busy = Engine()
    twin = replace(LONG, key="default/twin")
    async with (
        scripted_engine(busy) as large,
        scripted_engine(busy) as second,
        scripted_engine() as spare,
        running_router(large, spec=replace(LONG, fallback_model="other", degrade_tokens=50)) as router,
    ):
        add(router, twin, second)
        occupied = [asyncio.create_task(router.ask(BIG)) for _ in range(2)]
        await until(lambda: large.requests and second.requests)
        if falls_back:
            add(router, OTHER, spare)
        answer = await router.ask(BIG)
        counted = [router.table.pools[key].rejected for key in (LONG.key, twin.key)]
        busy.go_on.set()
        await asyncio.gather(*occupied)
    assert answer.status == (200 if falls_back else 429)
    assert sorted(counted, reverse=True) == rejected


@pytest.mark.parametrize(
    ("fallback", "spec"),
    [
        ("nobody", OTHER),
        ("tiny-alias", OTHER),
        ("other", replace(OTHER, key="elsewhere/other")),
        ("other", replace(OTHER, context_tokens=500, class_tokens=500)),
    ],
    ids=["unknown", "itself", "of another namespace", "too small for the request"],
)
async def test_a_fallback_that_cannot_be_is_passed_over(fallback: str, spec: PoolSpec):
    busy = Engine()
    async with (
        scripted_engine(busy) as large,
        scripted_engine() as spare,
        running_router(large, spec=replace(LONG, fallback_model=fallback)) as router,
    ):
        add(router, spec, spare)
        occupied = await full(router, large, BIG)
        answer = await router.ask(BIG)
        busy.go_on.set()
        await occupied
    assert answer.status == 429
    assert not spare.requests


async def test_who_has_waited_in_vain_gets_the_fallback_if_it_is_free_at_once():
    busy = Engine()
    spec = replace(LONG, fallback_model="other", queue_depth=5, queue_wait=0.2)
    async with (
        scripted_engine(busy) as large,
        scripted_engine() as spare,
        running_router(large, spec=spec) as router,
    ):
        add(router, replace(OTHER, queue_depth=5), spare)
        occupied = await full(router, large, BIG)
        first = await router.ask(BIG)
        spare.behaviour = busy
        occupied_too = await full(router, spare, chat(model="other"))
        second = await router.ask(BIG)
        busy.go_on.set()
        await asyncio.gather(occupied, occupied_too)
    assert (first.status, first.headers["x-workslice-degraded"]) == (200, "model=other")
    assert int(first.headers["x-workslice-queue-ms"]) >= 190
    assert (second.status, second.headers["x-workslice-reason"]) == (429, "queue_timeout")


async def test_who_has_waited_in_vain_pushes_nobody_out_of_the_fallbacks_queue():
    busy = Engine()
    async with (
        scripted_engine(busy) as large,
        scripted_engine(busy) as spare,
        running_router(large, spec=replace(LONG, fallback_model="other", queue_depth=1, queue_wait=0.3)) as router,
    ):
        add(router, replace(OTHER, queue_depth=2), spare)
        other = chat(model="other")
        occupied = [await full(router, large, BIG), await full(router, spare, other)]
        waiting = [asyncio.create_task(router.ask(other, "127.0.0.2")) for _ in range(2)]
        await until(lambda: router.admission.waiting == 2)
        answer = await router.ask(BIG)
        busy.go_on.set()
        statuses = [one.status for one in await asyncio.gather(*occupied, *waiting)]
    assert (answer.status, answer.headers["x-workslice-reason"]) == (429, "queue_timeout")
    assert statuses == [200, 200, 200, 200]


async def test_a_stream_that_has_got_comments_says_in_one_that_it_is_degraded():
    busy = Engine()
    spec = replace(LONG, fallback_model="other", queue_depth=5, queue_wait=0.4, times=ClassTimes(keep_alive=0.1))
    async with (
        scripted_engine(busy) as large,
        scripted_engine(answers(stream(token("ok"), DONE))) as spare,
        running_router(large, spec=spec) as router,
    ):
        add(router, OTHER, spare)
        occupied = await full(router, large, BIG)
        answer = await router.ask(chat(max_tokens=1000, stream=True))
        busy.go_on.set()
        await occupied
    assert answer.complete
    assert b": keep-alive\n\n" in answer.body
    assert b"\n: x-workslice-degraded: model=other\n" in answer.body


async def test_a_degraded_request_that_fails_is_tried_again_as_it_was_sent():
    busy = Engine()

    async def dies(request: EngineRequest, wire: Wire) -> None:
        wire.abort()

    async with (
        scripted_engine(busy) as large,
        scripted_engine(dies) as bad,
        scripted_engine() as good,
        running_router(large, spec=replace(LONG, fallback_model="other")) as router,
    ):
        router.table.put_pool(OTHER)
        specs = [ReplicaSpec(name, "127.0.0.1", one.port) for name, one in (("a-bad", bad), ("b-good", good))]
        router.table.put_replicas(OTHER.key, specs)
        router.table.commit()
        occupied = await full(router, large, BIG)
        answer = await router.ask(BIG)
        busy.go_on.set()
        await occupied
    assert answer.status == 200
    assert [request.body for request in bad.requests] == [request.body for request in good.requests]


@pytest.mark.parametrize("reason", Reason)
def test_every_429_of_the_router_leads_down_and_no_other_refusal(reason: Reason) -> None:
    bench = Bench(table_of((replace(LONG, fallback_model="other"), specs("a")), (OTHER, specs("b"))))
    cause = Refusal(ERRORS[reason].status, reason, b"", ())
    wanted = view(max_tokens=1000)
    plan = bench.admission.plan(wanted, None)
    found = lesser_place(bench.admission, cause, plan, wanted, BIG, CHAT, Asker(), ())
    assert (found is not None) is (cause.status == 429)
    if found is not None:
        lesser, less, place = found
        assert isinstance(place, Lease)
        assert (lesser.step, less.routes.name, place.pool.key) == ("fallback_model", "other", "default/other")
        place.settle(Outcome.OK)
    bench.assert_idle()


def test_the_turns_of_a_session_stay_together_under_the_fallback_model_as_well() -> None:
    spare = replace(OTHER, max_concurrent=9)
    bench = Bench(table_of((replace(LONG, fallback_model="other"), specs("a")), (spare, specs("b", "c", "d"))))
    bench.lease()
    homes: dict[bytes, set[str]] = {}
    for number in range(12):
        name = b"session %d" % (number % 4)
        wanted = view(max_tokens=1000)
        plan = bench.admission.plan(wanted, None, name)
        full = Refusal(429, Reason.QUEUE_FULL, b"", ())
        found = lesser_place(bench.admission, full, plan, wanted, BIG, CHAT, Asker(), ())
        assert found is not None
        assert isinstance(found[2], Lease)
        homes.setdefault(name, set()).add(found[2].replica.uid)
        found[2].settle(Outcome.OK)
    assert [len(home) for home in homes.values()] == [1] * 4
