from collections.abc import Callable

import pytest

from workslice_api.names import MANAGED_BY, MANAGED_BY_LABEL, POOL_LABEL
from workslice_operator.cached_kube import LiveReads
from workslice_operator.keys import Key, pool_key
from workslice_operator.kube_api import NODES, PODS, Object, Refused, Resource
from workslice_operator.watched_kinds import WatchedKinds

SLICE = "nvidia.com/mig-1g.10gb"
NODE = {
    "metadata": {"name": "one", "uid": "one", "resourceVersion": "1"},
    "status": {"allocatable": {SLICE: "7"}, "conditions": [{"type": "Ready", "status": "True"}]},
}


def pod(uid: str, version: int, phase: str = "Running") -> Object:
    metadata = {"namespace": "shop", "name": "db-0", "uid": uid, "resourceVersion": str(version)}
    containers = [{"name": "db", "resources": {"limits": {SLICE: "1"}}}]
    return {"metadata": metadata, "spec": {"nodeName": "one", "containers": containers}, "status": {"phase": phase}}


class Api:
    """Lists the pods that the test put there; nothing else is asked of it."""

    def __init__(self, *pods: Object) -> None:
        self.pods = list(pods)
        self.refused = False

    async def page(self, resource: Resource, labels: str, token: str) -> Object:
        if self.refused:
            raise Refused(403, f"{resource.plural} is forbidden")
        return {"items": self.pods if resource == PODS else [NODE], "metadata": {"resourceVersion": "10"}}

    async def list(self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        return self.pods


def kinds_of(api: Api, wake: Callable[[Key], None] = lambda key: None) -> WatchedKinds:
    kinds = WatchedKinds(api, wake, lambda cordoned: None)  # type: ignore[arg-type]
    kinds._watches[NODES]._take("ADDED", NODE)
    return kinds


def used(kinds: WatchedKinds) -> int:
    return sum(kinds._slices.inventory().nodes[0].used.values())


async def test_a_pod_recreated_while_nobody_watched_counts_once() -> None:
    api = Api(pod("1", 4))
    kinds = kinds_of(api)
    await kinds._watches[PODS]._list()
    api.pods = [pod("2", 9)]
    await kinds._watches[PODS]._list()
    assert used(kinds) == 1
    kinds._watches[PODS]._take("DELETED", pod("2", 11))
    assert used(kinds) == 0


async def test_what_a_live_read_learned_first_is_counted() -> None:
    api = Api(pod("1", 5, "Failed"))
    kinds = kinds_of(api)
    kinds._watches[PODS]._take("ADDED", pod("1", 4))
    assert used(kinds) == 1
    await LiveReads(api, kinds.watched).list(PODS, "shop")  # type: ignore[arg-type]
    kinds._watches[PODS]._take("MODIFIED", pod("1", 5, "Failed"))
    assert used(kinds) == 0


async def test_a_pod_that_went_while_nobody_watched_holds_nothing() -> None:
    api = Api(pod("1", 4))
    kinds = kinds_of(api)
    await kinds._watches[PODS]._list()
    api.pods = []
    await kinds._watches[PODS]._list()
    assert used(kinds) == 0


async def test_while_nothing_is_watched_slices_are_counted_from_lists() -> None:
    api = Api(pod("1", 4), pod("2", 5, "Failed"))
    inventory = await WatchedKinds(api, lambda key: None, lambda cordoned: None).inventory.get()  # type: ignore[arg-type]
    assert inventory is not None
    assert inventory.nodes[0].used == {SLICE: 1}


async def test_slices_that_may_not_be_read_are_unknown() -> None:
    api = Api()
    api.refused = True
    assert await WatchedKinds(api, lambda key: None, lambda cordoned: None).inventory.get() is None  # type: ignore[arg-type]


def of_pool(one: Object, **labels: str) -> Object:
    return {**one, "metadata": {**one["metadata"], "labels": labels}}


OURS = {MANAGED_BY_LABEL: MANAGED_BY}
CHAT = {**OURS, POOL_LABEL: "chat"}


@pytest.mark.parametrize(
    "labels",
    [{**OURS, POOL_LABEL: "other"}, OURS, {POOL_LABEL: "chat"}, {}],
    ids=["other pool", "no pool", "not managed", "no label"],
)
@pytest.mark.parametrize("read_first", [False, True])
async def test_a_pod_that_leaves_its_pool_wakes_both(labels: dict[str, str], read_first: bool) -> None:
    woken: set[Key] = set()
    api = Api(of_pool(pod("1", 5), **labels))
    kinds = kinds_of(api, woken.add)
    kinds._watches[PODS]._take("ADDED", of_pool(pod("1", 4), **CHAT))
    assert woken == {pool_key("shop", "chat")}
    woken.clear()
    if read_first:
        await LiveReads(api, kinds.watched).list(PODS, "shop")  # type: ignore[arg-type]
    kinds._watches[PODS]._take("MODIFIED", api.pods[0])
    taken_over = {pool_key("shop", "other")} if labels.get(POOL_LABEL) == "other" and not read_first else set()
    assert woken == {pool_key("shop", "chat")} | taken_over
    assert used(kinds) == 1
