"""A process that lost the Lease in the middle of a reconcile writes nothing more."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest
from fake_kube import FakeKube
from pool_objects import raw_pool

from workslice_operator.kube_api import EVENTS, POOLS, Object, Resource
from workslice_operator.write_fence import FencedKube, NotLeading

POOL = FakeKube().put(raw_pool())
NAMESPACE, NAME = POOL["metadata"]["namespace"], POOL["metadata"]["name"]
EVENT = {"kind": "Event", "metadata": {"namespace": NAMESPACE, "name": "new"}}
WRITES: dict[str, Callable[[FencedKube], Coroutine[Any, Any, object]]] = {
    "apply": lambda kube: kube.apply(POOLS, POOL),
    "apply_status": lambda kube: kube.apply_status(POOLS, {**POOL, "status": {}}),
    "create": lambda kube: kube.create(EVENTS, EVENT),
    "replace": lambda kube: kube.replace(POOLS, POOL),
    "merge_patch": lambda kube: kube.merge_patch(
        POOLS, NAMESPACE, NAME, {"metadata": {"uid": POOL["metadata"]["uid"]}}
    ),
}


class Term:
    """A Lease as the test sets it."""

    def __init__(self) -> None:
        self.held = True
        self.over_at = float("inf")


class SlowKube(FakeKube):
    """An API that takes its time for an apply."""

    async def apply(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        await asyncio.sleep(60)
        return await super().apply(resource, manifest)


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube(POOL)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_who_holds_the_lease_writes(
    kube: FakeKube, write: Callable[[FencedKube], Coroutine[Any, Any, object]]
) -> None:
    await write(FencedKube(kube, Term()))
    assert len(kube.writes) == 1


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_who_lost_it_writes_nothing(
    kube: FakeKube, write: Callable[[FencedKube], Coroutine[Any, Any, object]]
) -> None:
    term = Term()
    fenced = FencedKube(kube, term)
    assert await fenced.get(POOLS, NAMESPACE, NAME) is not None
    term.held = False
    with pytest.raises(NotLeading):
        await write(fenced)
    assert kube.writes == []


async def test_who_lost_it_still_reads(kube: FakeKube) -> None:
    term = Term()
    term.held = False
    fenced = FencedKube(kube, term)
    assert await fenced.get(POOLS, NAMESPACE, NAME) is not None
    assert len(await fenced.list(POOLS)) == 1


async def test_a_write_is_given_up_when_another_may_begin_to_write() -> None:
    kube, term = SlowKube(POOL), Term()
    term.over_at = asyncio.get_running_loop().time() + 0.01
    with pytest.raises(TimeoutError):
        await FencedKube(kube, term).apply(POOLS, POOL)
    assert kube.writes == []
