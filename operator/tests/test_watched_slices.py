from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from workslice_operator.kube_api import Object
from workslice_operator.slice_inventory import slice_inventory
from workslice_operator.watched_slices import WatchedSlices

SLICE = "nvidia.com/mig-1g.10gb"


def node(name: str, cordoned: bool = False) -> Object:
    status = {"allocatable": {SLICE: "7"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": {}}, "spec": {"unschedulable": cordoned}, "status": status}


def pod(uid: str, where: str, phase: str, slices: int) -> Object:
    limits = {"limits": {SLICE: str(slices)}} if slices else {}
    spec = {"containers": [{"name": "engine", "resources": limits}]} | ({"nodeName": where} if where else {})
    return {"metadata": {"uid": uid}, "spec": spec, "status": {"phase": phase}}


changes = st.lists(
    st.tuples(
        st.sampled_from(["p", "q", "r"]),
        st.sampled_from(["", "one", "two"]),
        st.sampled_from(["Pending", "Running", "Failed"]),
        st.integers(0, 2),
        st.booleans(),
    ),
    max_size=20,
)


@given(changes)
def test_counting_along_comes_to_the_same_as_counting_anew(story: list[tuple[str, str, str, int, bool]]) -> None:
    watched = WatchedSlices(lambda _: None)
    nodes = [node("one"), node("two", cordoned=True)]
    for one in nodes:
        watched.node_changed(one, True)
    there: dict[str, Object] = {}
    for uid, where, phase, slices, stays in story:
        raw: dict[str, Any] = pod(uid, where, phase, slices)
        watched.pod_changed(raw, stays)
        there.pop(uid, None)
        if stays:
            there[uid] = raw
        assert watched.inventory() == slice_inventory(nodes, there.values())


def test_a_node_that_goes_takes_its_slices_along() -> None:
    watched = WatchedSlices(lambda _: None)
    watched.node_changed(node("one"), True)
    assert watched.inventory().free(SLICE) == 7
    watched.node_changed(node("one"), False)
    assert watched.inventory().free(SLICE) == 0


def test_cordoned_nodes_are_told_when_they_become_others() -> None:
    told: list[frozenset[str]] = []
    watched = WatchedSlices(told.append)
    watched.node_changed(node("one"), True)
    assert told == []
    watched.node_changed(node("one", cordoned=True), True)
    watched.node_changed(node("one", cordoned=True), True)
    watched.node_changed(node("one", cordoned=True), False)
    assert told == [frozenset({"one"}), frozenset()]
