import pytest
from fake_kube import FakeKube

from workslice_operator.cordon_watch import CordonWatch
from workslice_operator.keys import Key, pool_key
from workslice_operator.kube_api import Unavailable

POOL = pool_key("shop", "chat")


class Nodes:
    def __init__(self) -> None:
        self.kube = FakeKube()
        self.woken: list[Key] = []
        self.refreshed = 0
        self.watch = CordonWatch(self.kube, self.refresh, self.woken.append, lambda: (POOL,))

    async def refresh(self) -> None:
        assert self.woken == [], "pools must find the new inventory"
        self.refreshed += 1

    async def look(self) -> list[Key]:
        self.woken.clear()
        await self.watch.look()
        return self.woken

    def cordon(self, name: str) -> None:
        """The API selects cordoned nodes by field; the fake has only those."""
        self.kube.put({"kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}})


async def test_every_pool_is_woken_once_when_a_node_is_cordoned_and_when_it_is_back() -> None:
    nodes = Nodes()
    assert await nodes.look() == []
    nodes.cordon("node-1")
    assert await nodes.look() == [POOL]
    assert await nodes.look() == []
    assert nodes.refreshed == 1
    nodes.kube.remove("Node", "", "node-1")
    assert await nodes.look() == [POOL]


async def test_an_outage_wakes_nobody_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes()
    nodes.cordon("node-1")
    await nodes.look()
    nodes.kube.failures["list", "Node"] = Unavailable(0, "away")
    assert await nodes.look() == []
    assert await nodes.look() == []
    assert caplog.text.count("away") == 1
    nodes.kube.failures.clear()
    assert await nodes.look() == []
