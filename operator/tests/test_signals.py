import asyncio
from datetime import UTC, datetime

import httpx
import pytest
from fake_kube import FakeKube

from workslice_api.state import PoolState, ReplicaState, RouterState
from workslice_operator import signals as signals_module
from workslice_operator.kube_api import Unavailable
from workslice_operator.metrics import Metrics
from workslice_operator.signals import RouterSignals

STATE = RouterState(synced=True, pools={"shop/chat": PoolState(queued=1, running=2)})


def slices(*hosts: str) -> dict[str, object]:
    labels = {"kubernetes.io/service-name": "admin"}
    return {
        "kind": "EndpointSlice",
        "metadata": {"name": "admin-1", "namespace": "workslice", "labels": labels},
        "ports": [{"name": "admin", "port": 9090}],
        "endpoints": [{"addresses": [host], "conditions": {"ready": True, "serving": True}} for host in hosts],
    }


def signals(kube: FakeKube, answer: object) -> RouterSignals:
    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))  # type: ignore[arg-type]
    return RouterSignals(kube, http, "workslice", "admin", Metrics())


def good(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=STATE.model_dump_json(by_alias=True))


async def test_every_router_behind_the_service_is_asked() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return good(request)

    reading = signals(FakeKube(slices("10.0.0.1", "10.0.0.2")), answer)
    await reading.read()
    assert sorted(asked) == ["http://10.0.0.1:9090/state", "http://10.0.0.2:9090/state"]
    signal = reading.signal("shop/chat")
    assert signal is not None
    assert (signal.queued, signal.running, signal.routers) == (2, 4, 2)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(200, content=b"not json"),
        httpx.Response(200, content=b'{"pools": 7}'),
        httpx.ReadTimeout("slow"),
        httpx.ConnectError("refused"),
    ],
    ids=["error", "garbage", "other document", "timeout", "refused"],
)
async def test_a_router_that_gives_no_state_makes_demand_unknown(answer: httpx.Response | Exception) -> None:
    def answers(request: httpx.Request) -> httpx.Response:
        if request.url.host == "10.0.0.1":
            return good(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    reading = signals(FakeKube(slices("10.0.0.1", "10.0.0.2")), answers)
    await reading.read()
    assert reading.signal("shop/chat") is None


async def test_a_router_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals_module, "ANSWER_TIMEOUT", 0.05)

    async def never(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    reading = signals(FakeKube(slices("10.0.0.1")), never)
    await asyncio.wait_for(reading.read(), timeout=5)
    assert reading.signal("shop/chat") is None


async def test_old_numbers_become_unknown_when_the_api_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = FakeKube(slices("10.0.0.1"))
    reading = signals(kube, good)
    await reading.read()
    kube.failures["list", "EndpointSlice"] = Unavailable(0, "away")
    await reading.read()
    assert reading.signal("shop/chat") is not None
    monkeypatch.setattr(signals_module, "STALE_SECONDS", 0.0)
    await asyncio.sleep(0)
    assert reading.signal("shop/chat") is None


async def test_a_refused_connection_is_told_from_a_host_that_cannot_be_reached() -> None:
    def refusal() -> httpx.ConnectError:
        error = httpx.ConnectError("All connection attempts failed")
        error.__cause__ = OSError("All connection attempts failed")
        error.__cause__.__cause__ = ConnectionRefusedError(111, "Connection refused")
        return error

    leaving = slices("10.0.0.1", "10.0.0.2")
    leaving["endpoints"][1]["conditions"] = {"ready": False, "serving": False, "terminating": True}  # type: ignore[index]
    draining = ReplicaState(uid="a", address="", draining=True)
    state = RouterState(synced=True, pools={"shop/chat": PoolState(replicas=(draining,))})

    for error, acknowledged in ((refusal(), True), (httpx.ConnectError("No route to host"), False)):

        def answers(request: httpx.Request, error: Exception = error) -> httpx.Response:
            if request.url.host == "10.0.0.2":
                raise error
            return httpx.Response(200, content=state.model_dump_json(by_alias=True))

        reading = signals(FakeKube(leaving), answers)
        await reading.read()
        report = reading.report("shop/chat")
        assert report is not None
        assert report.replicas["a"].acknowledged is acknowledged


async def test_the_report_says_when_the_asking_began() -> None:
    before = datetime.now(UTC)
    reading = signals(FakeKube(slices("10.0.0.1")), good)
    assert reading.report("shop/chat") is None
    await reading.read()
    report = reading.report("shop/chat")
    assert report is not None
    assert before <= report.asked_at <= datetime.now(UTC)
