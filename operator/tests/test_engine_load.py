import asyncio

import httpx
import pytest

from workslice_operator import engine_metrics
from workslice_operator.engine_load import engine_load
from workslice_operator.engine_metrics import EngineMetrics
from workslice_operator.observed import EngineLoad

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 1.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="deferred"} 5.0
"""


def test_running_and_waiting_requests_are_read() -> None:
    assert engine_load(PAGE) == EngineLoad(running=2, waiting=1)
    assert EngineLoad(running=2, waiting=1).requests == 3


def test_all_cores_of_an_engine_count() -> None:
    second = PAGE.replace('engine="0"', 'engine="1"')
    assert engine_load(PAGE + second) == EngineLoad(running=4, waiting=2)


CACHE = 'vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",kv_cache_size_tokens="31984",num_gpu_blocks="1999"} 1.0\n'


def test_the_size_of_the_kv_cache_is_read_and_of_several_cores_the_smallest() -> None:
    smaller = CACHE.replace('engine="0"', 'engine="1"').replace("31984", "30000")
    for page, tokens in ((CACHE, 31984), (CACHE + smaller, 30000), (smaller + CACHE, 30000)):
        load = engine_load(PAGE + page)
        assert load is not None
        assert load.kv_tokens == tokens


def test_an_engine_that_tells_blocks_alone_is_multiplied_out() -> None:
    load = engine_load(PAGE + CACHE.replace('kv_cache_size_tokens="31984",', ""))
    assert load is not None
    assert load.kv_tokens == 16 * 1999


@pytest.mark.parametrize(
    "told",
    [
        "",
        CACHE.replace('"31984"', '"None"').replace('"1999"', '"None"'),
        CACHE.replace("31984", "0").replace("1999", "0"),
    ],
)
def test_an_engine_that_does_not_tell_its_kv_cache_is_unknown(told: str) -> None:
    load = engine_load(PAGE + told)
    assert load == EngineLoad(2, 1, None)


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<html>",
        PAGE.replace("num_requests_waiting{", "other{"),
        PAGE.replace("} 2.0", "} NaN"),
        PAGE.replace("} 2.0", "} 0.5"),
        PAGE.replace("} 2.0", "} 1e999"),
    ],
    ids=["empty", "no metrics", "one is missing", "not a number", "not whole", "infinite"],
)
def test_anything_else_is_unknown_and_never_zero(page: str) -> None:
    assert engine_load(page) is None


def engine(answer: httpx.Response | Exception, asked: list[str] | None = None) -> EngineMetrics:
    def answers(request: httpx.Request) -> httpx.Response:
        (asked if asked is not None else []).append(str(request.url))
        if isinstance(answer, Exception):
            raise answer
        return answer

    return EngineMetrics(httpx.AsyncClient(transport=httpx.MockTransport(answers)))


@pytest.mark.parametrize(("address", "host"), [("10.1.0.7", "10.1.0.7"), ("fd00::7", "[fd00::7]")])
async def test_an_engine_is_asked_at_its_pods_address(address: str, host: str) -> None:
    asked: list[str] = []
    assert await engine(httpx.Response(200, text=PAGE), asked).load(address) == EngineLoad(2, 1)
    assert asked == [f"http://{host}:8000/metrics"]


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500, text=PAGE),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.Response(200, text=PAGE + "#" * 5_000_000),
    ],
    ids=["error", "refused", "timeout", "endless page"],
)
async def test_an_engine_that_does_not_tell_is_unknown(answer: httpx.Response | Exception) -> None:
    assert await engine(answer).load("10.1.0.7") is None


async def test_an_engine_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_metrics, "ANSWER_TIMEOUT", 0.05)

    async def never(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    http = httpx.AsyncClient(transport=httpx.MockTransport(never))
    assert await EngineMetrics(http).load("10.1.0.7") is None
