"""The retry budget in the data path: what failures may cost beyond the traffic itself."""

from router_under_test import RunningRouter, chat, pool, running_router
from scripted_engine import BUSY, HELLO, answers, response, scripted_engine

from workslice_router.ejection import HEALTHY
from workslice_router.retry_budget import SPARE

METRIC = "workslice_router_retries_refused_total"


def refused_retries(router: RunningRouter) -> list[str]:
    text = "".join(router.data_path.metrics.render(router.table, 0.0))
    return [line for line in text.splitlines() if line.startswith(METRIC)]


def forget_rests(router: RunningRouter) -> None:
    for replica in router.table.pools["default/short"].replicas:
        replica.health = HEALTHY


async def test_when_every_request_fails_only_some_are_tried_again_and_the_rest_get_the_failure_itself():
    busy = answers(response(BUSY, 503))
    async with (
        scripted_engine(busy) as one,
        scripted_engine(busy) as two,
        running_router(one, two, spec=pool(max_concurrent=4)) as router,
    ):
        for _ in range(100):
            forget_rests(router)
            answer = await router.ask()
            assert (answer.status, answer.body, answer.headers["retry-after"]) == (503, BUSY, "1")
        tried = len(one.requests) + len(two.requests)
        assert any('cause="busy"' in line for line in refused_retries(router))
    # A tenth of all, one replica's, the spare ones, and one for each second that the test may take on a busy machine.
    assert 100 < tried <= 100 + 0.1 * tried + 4 + SPARE + 10


async def test_a_broken_replica_beside_a_good_one_costs_nobody_a_request():
    async with (
        scripted_engine(answers(b"")) as one,
        scripted_engine() as two,
        running_router(one, two) as router,
    ):
        one.stop()
        got = [await router.ask() for _ in range(60)]
        assert refused_retries(router) == []
    assert [(answer.status, answer.body) for answer in got] == [(200, HELLO)] * 60


async def test_a_prompt_that_a_larger_pool_answers_takes_nothing_from_the_budget():
    too_long = b'{"error":{"message":"x","type":"BadRequestError","param":"input_tokens","code":400}}'
    async with scripted_engine(answers(response(too_long, 400))) as only, running_router(only) as router:
        for _ in range(5):
            await router.ask(chat("x" * 4000))
        assert router.table.pools["default/short"].retries.spent == 0


async def test_a_retry_that_finds_nobody_takes_nothing_from_the_budget():
    async with scripted_engine(answers(response(BUSY, 503))) as only, running_router(only) as router:
        for _ in range(5):
            forget_rests(router)
            assert (await router.ask()).body == BUSY
        assert router.table.pools["default/short"].retries.spent == 0
