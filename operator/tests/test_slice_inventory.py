from typing import Any

from pool_facts import LARGE_SLICE, SLICE

from workslice_operator.slice_inventory import SliceInventory, requested_slices, slice_inventory


def node(name: str, ready: bool = True, cordoned: bool = False, product: str = "A", **slices: str) -> dict[str, Any]:
    resources = {"small": SLICE, "large": LARGE_SLICE}
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": product}},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "allocatable": {"cpu": "8", "memory": "1Gi"} | {resources[kind]: count for kind, count in slices.items()},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }


def pod(on: str | None, resource: str = SLICE, phase: str = "Running") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "x", "resources": {"limits": {resource: "1", "memory": "1Gi"}}}]}
    return {"spec": spec | ({"nodeName": on} if on else {}), "status": {"phase": phase}}


def test_placed_pods_take_slices_and_waiting_or_finished_ones_do_not() -> None:
    pods = [pod("n1"), pod("n1", phase="Pending"), pod(None), pod("n1", phase="Succeeded"), pod("n1", LARGE_SLICE)]
    inventory = slice_inventory([node("n1", small="3", large="1")], pods)
    assert (inventory.free(SLICE), inventory.free(LARGE_SLICE)) == (1, 0)
    assert inventory.waiting == {SLICE: 1}


def test_pods_that_may_not_be_scheduled_yet_or_are_going_wait_for_no_slice() -> None:
    gated, going = pod(None), pod(None)
    gated["spec"]["schedulingGates"] = [{"name": "queued"}]
    going["metadata"] = {"deletionTimestamp": "2026-03-01T12:00:00Z"}
    assert slice_inventory([], [gated, going, pod(None, phase="Failed")]).waiting == {}


def test_init_containers_and_sidecars_hold_slices_as_the_scheduler_counts_them() -> None:
    def container(count: int, **more: str) -> dict[str, Any]:
        return {"resources": {"limits": {SLICE: str(count)}}} | more

    def requested(init: list[dict[str, Any]], containers: list[dict[str, Any]]) -> int:
        return requested_slices({"spec": {"initContainers": init, "containers": containers}})[SLICE]

    sidecar = container(1, restartPolicy="Always")
    assert requested([container(3), container(2)], [container(1)]) == 3
    assert requested([container(1)], [container(1), container(1)]) == 2
    assert requested([sidecar], [container(2)]) == 3
    assert requested([sidecar, container(3)], [container(2)]) == 4
    assert requested([container(3), sidecar], [container(1)]) == 3


def test_slices_of_cordoned_and_lost_nodes_are_not_free_but_are_told() -> None:
    inventory = slice_inventory([node("n1", cordoned=True, small="2"), node("n2", ready=False, small="1")], [])
    assert inventory.free(SLICE) == 0
    assert inventory.free_on_unusable_nodes(SLICE) == {"n1": 2, "n2": 1}
    assert [one.node for one in inventory.nodes if one.cordoned] == ["n1"]


def test_products_narrow_the_count() -> None:
    inventory = slice_inventory([node("n1", small="2"), node("n2", product="B", small="3")], [])
    assert (inventory.free(SLICE), inventory.free(SLICE, ["B"]), inventory.free(SLICE, ["C"])) == (5, 3, 0)


def test_kinds_that_a_kubelet_keeps_at_zero_do_not_exist() -> None:
    inventory = slice_inventory([node("n1", small="0", large="1")], [])
    assert not inventory.exists(SLICE)
    assert inventory.resources() == (LARGE_SLICE,)


def test_a_device_that_became_unhealthy_under_a_pod_never_makes_the_count_negative() -> None:
    inventory = slice_inventory([node("n1", small="1")], [pod("n1"), pod("n1")])
    assert inventory.free(SLICE) == 0


def test_free_slices_are_counted_by_kind_without_the_taken_ones() -> None:
    inventory = slice_inventory([node("n1", small="2", large="1")], [pod("n1", LARGE_SLICE)])
    assert inventory.free_by_resource() == {SLICE: 2}


def test_the_order_in_which_the_api_lists_nodes_changes_nothing() -> None:
    nodes = [node("b", small="1"), node("a", large="1")]
    assert slice_inventory(nodes, []) == slice_inventory(nodes[::-1], [])
    assert slice_inventory([], []) == SliceInventory()


def test_slices_that_the_node_has_but_does_not_offer_have_failed_and_still_exist() -> None:
    broken = node("n1", small="0", large="1")
    broken["status"]["capacity"] = {SLICE: "3", LARGE_SLICE: "1", "cpu": "8"}
    inventory = slice_inventory([broken], [])
    assert inventory.unhealthy(SLICE) == {"n1": 3}
    assert inventory.unhealthy(LARGE_SLICE) == {}
    assert inventory.exists(SLICE)
    assert inventory.free(SLICE) == 0
