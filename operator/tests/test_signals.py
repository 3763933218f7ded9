import asyncio
from datetime import UTC, datetime

import httpx
import pytest
from eventually import eventually
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


def now() -> float:
    return asyncio.get_running_loop().time()


class Router:
    """Answers /state at once, and /asked-in-vain when told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.in_vain = asyncio.Event()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/state":
            return httpx.Response(
                200, content=STATE.model_copy(update={"asked_in_vain": 3}).model_dump_json(by_alias=True)
            )
        self.asked.append(str(request.url))
        await self.in_vain.wait()
        return httpx.Response(200, content=b"4\n")


async def test_a_request_in_vain_ends_the_wait_at_once() -> None:
    router = Router()
    reading = signals(FakeKube(slices("10.0.0.1", "10.0.0.2")), router.answer)
    await reading.read()
    waiting = asyncio.create_task(reading.asked_in_vain(now() + 60))
    await eventually(lambda: len(router.asked) == 2)
    assert not waiting.done()
    router.in_vain.set()
    assert await asyncio.wait_for(waiting, timeout=5)
    assert router.asked[0].split("&")[0].split("?")[1] == "after=3"


@pytest.mark.parametrize(
    "answer",
    [httpx.Response(404), httpx.Response(200, content=b"0\n"), httpx.ReadTimeout("slow")],
    ids=["an older router", "nothing new", "silent"],
)
async def test_a_router_that_tells_of_no_request_is_asked_once(answer: httpx.Response | Exception) -> None:
    asked = 0

    def answers(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        if request.url.path == "/state":
            return good(request)
        asked += 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    reading = signals(FakeKube(slices("10.0.0.1")), answers)
    await reading.read()
    assert not await reading.asked_in_vain(now() + 60)
    assert asked == 1


async def test_without_a_router_nobody_is_waited_for() -> None:
    assert not await signals(FakeKube(), good).asked_in_vain(now() + 60)


async def test_nobody_is_asked_when_no_time_is_left() -> None:
    router = Router()
    reading = signals(FakeKube(slices("10.0.0.1")), router.answer)
    await reading.read()
    assert not await reading.asked_in_vain(now())
    assert router.asked == []


async def test_the_report_says_when_the_asking_began() -> None:
    before = datetime.now(UTC)
    reading = signals(FakeKube(slices("10.0.0.1")), good)
    assert reading.report("shop/chat") is None
    await reading.read()
    report = reading.report("shop/chat")
    assert report is not None
    assert before <= report.asked_at <= datetime.now(UTC)
