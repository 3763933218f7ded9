from typing import Any

import pytest
from pool_facts import LARGE_SLICE, make_inventory, make_observed, make_pod, make_profile, ready_pod, unplaced_pod

from workslice_api.names import Reason
from workslice_operator.slice_conditions import slices_granted
from workslice_operator.slice_inventory import NodeSlices, SliceInventory

NO_LARGE = f"0/1 nodes are available: 1 Insufficient {LARGE_SLICE}. preemption: 0/1 nodes are available: 1 No victims."
LARGE = make_profile(slice={"profiles": ["3g.40gb"]})


def test_slices_are_granted_when_every_wanted_replica_has_a_place() -> None:
    finding = slices_granted(make_observed(pods=(ready_pod("a"), make_pod("b"))), 2)
    assert (finding.status, finding.reason) == (True, Reason.SLICES_AVAILABLE)


def test_a_pool_that_wants_nothing_has_what_it_wants() -> None:
    assert slices_granted(make_observed(), 0).status is True


def test_before_the_scheduler_has_spoken_nobody_knows() -> None:
    assert slices_granted(make_observed(pods=(unplaced_pod("a", ""),)), 1).reason is Reason.SLICES_UNKNOWN


def test_a_missing_slice_is_told_with_counts_and_with_what_is_free_instead() -> None:
    inventory = make_inventory(small=(3, 1), large=(1, 1))
    finding = slices_granted(make_observed(profile=LARGE, inventory=inventory, pods=(unplaced_pod("a", NO_LARGE),)), 1)
    assert finding.reason is Reason.NO_FREE_SLICE
    assert finding.message.startswith("no node has a free 3g.40gb (1 wanted, 0 free); free: 2 × 1g.10gb; ")


def test_a_kind_that_no_node_has_is_told_apart_from_one_that_is_taken() -> None:
    observed = make_observed(profile=LARGE, inventory=make_inventory(small=(3, 0)), pods=(unplaced_pod("a", NO_LARGE),))
    assert slices_granted(observed, 1).message == (
        "no node has any 3g.40gb (1 wanted); slices in the cluster: 1g.10gb; change slice of the profile"
    )


def test_a_failed_slice_is_told_apart_from_one_that_is_taken_and_from_one_that_never_was() -> None:
    failed = NodeSlices("gpu-7", "NVIDIA-H100-80GB-HBM3", True, {}, {}, unhealthy={LARGE_SLICE: 1})
    observed = make_observed(profile=LARGE, inventory=SliceInventory((failed,)), pods=(unplaced_pod("a", NO_LARGE),))
    message = slices_granted(observed, 1).message
    assert "(1 wanted, 0 free)" in message
    assert "failed: 1 on gpu-7" in message


def test_without_an_inventory_the_schedulers_word_is_enough() -> None:
    finding = slices_granted(make_observed(profile=LARGE, pods=(unplaced_pod("a", NO_LARGE),)), 1)
    assert finding.reason is Reason.NO_FREE_SLICE
    assert "(1 wanted)" in finding.message


def test_a_free_slice_on_a_cordoned_node_is_pointed_out() -> None:
    said = "0/1 nodes are available: 1 node(s) were unschedulable. preemption: 0/1 nodes are available."
    inventory = make_inventory(node="gpu-7", usable=False, large=(1, 0))
    finding = slices_granted(make_observed(profile=LARGE, inventory=inventory, pods=(unplaced_pod("a", said),)), 1)
    assert finding.reason is Reason.UNSCHEDULABLE
    assert "1 on gpu-7 (cordoned or not ready)" in finding.message


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("1 node(s) had untolerated taint {nvidia.com/gpu: true}", "add template.tolerations"),
        ("1 node(s) didn't match Pod's node affinity/selector", "compare template.nodeSelector"),
        ("1 Insufficient memory", "lower memory.host"),
        ("1 Insufficient cpu", "lower cpu.request"),
        ('persistentvolumeclaim "weights" not found', "create the PersistentVolumeClaim"),
    ],
)
def test_other_obstacles_come_with_what_to_change(said: str, advice: str) -> None:
    pods = (unplaced_pod("a", f"0/1 nodes are available: {said}. preemption: 0/1 nodes are available: none."),)
    finding = slices_granted(make_observed(inventory=make_inventory(small=(3, 0)), pods=pods), 1)
    assert finding.reason is Reason.UNSCHEDULABLE
    assert f"a has no place although 3 × 1g.10gb are free: 0/1 nodes are available: {said}; " in finding.message
    assert advice in finding.message


def test_products_are_named_since_they_narrow_the_search() -> None:
    profile = make_profile(slice={"profiles": ["3g.40gb"], "products": ["NVIDIA-A30"]})
    observed: Any = make_observed(
        profile=profile, inventory=make_inventory(large=(1, 0)), pods=(unplaced_pod("a", NO_LARGE),)
    )
    assert "no node has any 3g.40gb on NVIDIA-A30" in slices_granted(observed, 1).message


def test_replicas_that_have_their_slices_are_not_counted_as_wanted() -> None:
    pods = (ready_pod("a"), unplaced_pod("b", NO_LARGE), unplaced_pod("c", NO_LARGE))
    observed = make_observed(profile=LARGE, inventory=make_inventory(large=(1, 1)), pods=pods)
    assert "(2 wanted, 0 free)" in slices_granted(observed, 3).message


def test_while_the_model_volume_is_missing_nothing_is_said_about_slices() -> None:
    pods = (unplaced_pod("a", '0/1 nodes are available: persistentvolumeclaim "w" not found. not found'),)
    finding = slices_granted(make_observed(pods=pods, missing_volumes=("w",)), 1)
    assert (finding.status, finding.reason) == (None, Reason.SLICES_UNKNOWN)


def test_slices_that_became_free_since_the_scheduler_looked_are_not_called_missing() -> None:
    pods = (unplaced_pod("a", NO_LARGE),)
    finding = slices_granted(make_observed(profile=LARGE, inventory=make_inventory(large=(2, 0)), pods=pods), 1)
    assert (finding.status, finding.reason) == (None, Reason.SLICES_UNKNOWN)
    assert finding.message == (
        "0 of 1 replicas have a slice; the scheduler found no free 3g.40gb when it looked last, and 2 are free now: "
        "it looks again by itself"
    )


def test_a_free_slice_on_a_node_that_refuses_for_another_reason_is_told_with_that_reason() -> None:
    said = f"0/2 nodes are available: 1 Insufficient {LARGE_SLICE}, 1 node(s) had untolerated taint {{gpu: true}}."
    observed = make_observed(
        profile=LARGE,
        inventory=make_inventory(large=(2, 0)),
        pods=(unplaced_pod("a", NO_LARGE), unplaced_pod("b", said)),
    )
    finding = slices_granted(observed, 2)
    assert (finding.status, finding.reason) == (False, Reason.UNSCHEDULABLE)
    assert finding.message.startswith("b has no place although 2 × 3g.40gb are free: 0/2 nodes are available: ")
    assert "add template.tolerations" in finding.message


@pytest.mark.parametrize(
    "taint",
    [
        "node-role.kubernetes.io/control-plane: ",
        "node.kubernetes.io/unreachable: ",
        "node.kubernetes.io/not-ready: ",
        "node.kubernetes.io/unschedulable: ",
    ],
)
def test_the_taints_of_control_planes_and_of_lost_nodes_are_no_reason_why_a_slice_that_is_free_now_was_refused(
    taint: str,
) -> None:
    said = f"0/2 nodes are available: 1 Insufficient {LARGE_SLICE}, 1 node(s) had untolerated taint {{{taint}}}. preemption: 0/2."
    observed = make_observed(profile=LARGE, inventory=make_inventory(large=(1, 0)), pods=(unplaced_pod("a", said),))
    assert slices_granted(observed, 1).reason is Reason.SLICES_UNKNOWN


def test_the_advice_is_about_what_can_be_changed_and_not_about_the_control_planes_taint() -> None:
    said = (
        "0/2 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated taint "
        "{node-role.kubernetes.io/control-plane: }. preemption: 0/2."
    )
    observed = make_observed(profile=LARGE, inventory=make_inventory(large=(1, 0)), pods=(unplaced_pod("a", said),))
    finding = slices_granted(observed, 1)
    assert finding.reason is Reason.UNSCHEDULABLE
    assert finding.message.endswith("lower memory.host of the profile or free memory on the nodes")


def test_a_disagreement_that_lasts_ends_with_the_schedulers_word() -> None:
    observed = make_observed(
        profile=LARGE, inventory=make_inventory(large=(2, 0)), pods=(unplaced_pod("a", NO_LARGE),), disagreement=60
    )
    finding = slices_granted(observed, 1)
    assert (finding.status, finding.reason) == (False, Reason.UNSCHEDULABLE)
    assert finding.message == (
        f"a has no place although 2 × 3g.40gb are free: 0/1 nodes are available: 1 Insufficient {LARGE_SLICE}; "
        "kubectl describe node tells who holds them; slices behind a taint that the scheduler names need template.tolerations"
    )
