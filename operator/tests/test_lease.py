import asyncio
from datetime import UTC, datetime

import pytest
from eventually import eventually
from fake_kube import FakeKube

from workslice_operator import lease as lease_module
from workslice_operator.kube_api import Conflict, Unavailable
from workslice_operator.lease import Lease, LeaseLost


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(lease_module, "RENEW_DEADLINE_SECONDS", 0.2)
    monkeypatch.setattr(lease_module, "DURATION_SECONDS", 0.3)


def lease(kube: FakeKube, identity: str) -> Lease:
    return Lease(kube, "workslice", identity, lambda: datetime.now(UTC))


def holder(kube: FakeKube) -> object:
    return kube.objects["Lease", "workslice", "workslice-operator"]["spec"]["holderIdentity"]


async def test_the_first_to_come_holds_it() -> None:
    kube = FakeKube()
    first = lease(kube, "a")
    assert not first.held
    await first.acquire()
    assert first.held
    assert holder(kube) == "a"


async def test_a_second_waits_until_the_first_stops_renewing() -> None:
    kube = FakeKube()
    first, second = lease(kube, "a"), lease(kube, "b")
    await first.acquire()
    keeping = asyncio.create_task(first.keep(lambda: None))
    waiting = asyncio.create_task(second.acquire())
    await asyncio.wait({waiting}, timeout=0.6)
    assert not waiting.done()
    keeping.cancel()
    await asyncio.wait_for(waiting, timeout=5)
    assert holder(kube) == "b"


async def test_a_lease_is_taken_the_moment_it_expires_and_not_a_retry_later(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = FakeKube()
    await lease(kube, "a").acquire()
    monkeypatch.setattr(lease_module, "RETRY_SECONDS", 60)
    await asyncio.wait_for(lease(kube, "b").acquire(), timeout=5)
    assert holder(kube) == "b"


async def test_a_released_lease_is_taken_at_once() -> None:
    kube = FakeKube()
    first, second = lease(kube, "a"), lease(kube, "b")
    await first.acquire()
    await first.release()
    assert not first.held
    await asyncio.wait_for(second.acquire(), timeout=0.2)


async def test_a_restarted_process_of_the_same_name_continues() -> None:
    kube = FakeKube()
    await lease(kube, "a").acquire()
    await asyncio.wait_for(lease(kube, "a").acquire(), timeout=0.2)


async def test_losing_it_to_another_is_final() -> None:
    kube = FakeKube()
    first = lease(kube, "a")
    await first.acquire()
    kube.objects["Lease", "workslice", "workslice-operator"]["spec"]["holderIdentity"] = "b"
    with pytest.raises(LeaseLost, match="held by b"):
        await asyncio.wait_for(first.keep(lambda: None), timeout=5)


async def test_an_outage_suspends_it_and_the_end_of_the_outage_is_told() -> None:
    kube = FakeKube()
    first = lease(kube, "a")
    await first.acquire()
    regained = asyncio.Event()
    keeping = asyncio.create_task(first.keep(regained.set))
    kube.failures["get", "Lease"] = Unavailable(0, "connection refused")
    await eventually(lambda: not first.held)
    kube.failures.clear()
    await eventually(regained.is_set)
    assert first.held
    keeping.cancel()


async def test_a_write_that_crossed_anothers_is_not_a_win() -> None:
    kube = FakeKube()
    kube.failures["create", "Lease"] = Conflict(409, "already exists")
    first = lease(kube, "a")
    waiting = asyncio.create_task(first.acquire())
    await asyncio.wait({waiting}, timeout=0.1)
    assert not waiting.done()
    assert not first.held
    waiting.cancel()


async def test_it_says_when_another_may_have_it() -> None:
    kube = FakeKube()
    first, now = lease(kube, "a"), asyncio.get_running_loop().time
    assert first.over_at < now()
    await first.acquire()
    assert now() < first.over_at <= now() + lease_module.DURATION_SECONDS
    await first.release()
    assert first.over_at < now()
