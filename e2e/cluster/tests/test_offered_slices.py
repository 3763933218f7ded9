"""Which slices the demo takes of those that a cluster's nodes offer."""

import sys
from typing import Any

import pytest

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.repository import repository

sys.path.insert(0, str(repository()))

from demo.example_manifests import SLICES
from demo.offered_slices import offered_slices, slices_of_the_demo

from workslice_cluster import inventory


def node(unschedulable: bool = False, **allocatable: str) -> dict[str, Any]:
    slices = {f"nvidia.com/mig-{name}": count for name, count in allocatable.items()}
    return {"spec": {"unschedulable": unschedulable}, "status": {"allocatable": {"cpu": "8", **slices}}}


def test_slices_of_all_nodes_are_added_up_small_ones_first() -> None:
    nodes = [node(**{"3g.40gb": "1"}), node(**{"1g.10gb": "2", "3g.40gb": "1"}), node(**{"1g.20gb": "0"})]
    assert list(offered_slices(nodes).items()) == [("1g.10gb", 2), ("3g.40gb", 2)]


def test_a_cordoned_node_and_slices_with_extra_engines_do_not_count() -> None:
    assert offered_slices([node(unschedulable=True, **{"1g.10gb": "7"}), node(**{"1g.10gb.me": "1"})]) == {}


def test_the_embedded_cluster_gives_the_slices_of_the_examples() -> None:
    shown = {part.profile: part.count for part in inventory.DEFAULT.slices}
    assert slices_of_the_demo(shown) == SLICES


@pytest.mark.parametrize(
    ("offered", "taken"),
    [
        ({"1g.18gb": 3, "3g.71gb": 1}, ("1g.18gb", "3g.71gb")),
        ({"1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 1}, ("2g.20gb", "3g.40gb")),
        ({"1g.10gb": 7}, ("1g.10gb", "1g.10gb")),
    ],
)
def test_any_layout_with_three_slices_for_two_pools_will_do(offered: dict[str, int], taken: tuple[str, str]) -> None:
    assert slices_of_the_demo(offered) == taken


def test_a_cluster_without_slices_is_told_what_is_missing() -> None:
    with pytest.raises(ClusterError, match=r"no node offers nvidia.com/mig-\* slices: .* strategy `mixed`"):
        slices_of_the_demo({})


def test_too_few_slices_are_listed() -> None:
    with pytest.raises(ClusterError, match=r"the nodes offer 1 x 1g.10gb, 1 x 3g.40gb$"):
        slices_of_the_demo({"1g.10gb": 1, "3g.40gb": 1})
