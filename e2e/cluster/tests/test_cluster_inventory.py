"""The declared GPUs: read strictly, shown to Kubernetes as NVIDIA's tools would."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_cluster import inventory
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.inventory import DEFAULT, Inventory, Slice
from workslice_cluster.node_labels import node_labels

slices = st.lists(
    st.builds(
        Slice,
        profile=st.sampled_from(["1g.10gb", "1g.10gb+me", "1g.24gb-me", "2g.20gb", "3g.40gb", "whole"]),
        count=st.integers(0, 50),
        memory_mebibytes=st.integers(1, 300_000),
        multiprocessors=st.integers(1, 200),
    ),
    unique_by=lambda part: part.profile,
    max_size=6,
)
inventories = st.builds(Inventory, st.just("NVIDIA-X"), st.integers(0, 8), st.integers(0, 300_000), slices.map(tuple))


@given(inventories)
def test_an_inventory_survives_being_written_and_read(one: Inventory) -> None:
    assert inventory.from_json(inventory.to_json(one)) == one


@given(inventories)
def test_every_device_has_an_id_of_its_own_that_the_kubelet_takes(one: Inventory) -> None:
    assert len(set(one.devices)) == len(one.devices) == sum(part.count for part in one.slices)
    assert all(len(device) <= 63 for device in one.devices)


@pytest.mark.parametrize(
    ("profile", "resource"),
    [
        ("1g.10gb", "nvidia.com/mig-1g.10gb"),
        ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
        ("1g.24gb-me", "nvidia.com/mig-1g.24gb-me"),
        ("whole", "nvidia.com/gpu"),
    ],
)
def test_a_profile_has_the_resource_name_of_nvidias_plugin(profile: str, resource: str) -> None:
    assert Slice(profile, 1, 1, 1).resource == resource


def changed(**fields: Any) -> str:
    return json.dumps(asdict(DEFAULT) | fields)


PART = asdict(DEFAULT.slices[0])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "object with exactly"),
        (changed(colour="red"), "object with exactly"),
        (changed(gpus="1"), "gpus must be a number"),
        (changed(gpus=True), "gpus must be a number"),
        (changed(gpus=-1), "gpus must be a number"),
        (changed(slices=[PART | {"profile": "1g10gb"}]), "not a MIG profile name"),
        (changed(slices=[PART, PART]), "twice"),
        (changed(slices=[PART | {"count": 10_000}]), "more than 1000"),
        (changed(slices=[{"profile": "1g.10gb"}]), r"slices\[0\] must be an object"),
    ],
)
def test_a_wrong_inventory_is_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(ClusterError, match=complaint):
        inventory.from_json(text)


def test_the_default_offers_three_small_slices_and_a_large_one() -> None:
    assert {part.resource: part.count for part in DEFAULT.slices} == {
        "nvidia.com/mig-1g.10gb": 3,
        "nvidia.com/mig-3g.40gb": 1,
    }


def test_the_labels_of_the_default_are_those_of_gpu_feature_discovery() -> None:
    labels = node_labels(DEFAULT)
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    assert labels["nvidia.com/gpu.count"] == "1"
    assert labels["nvidia.com/gpu.replicas"] == "0"
    assert labels["nvidia.com/mig-1g.10gb.count"] == "3"
    assert labels["nvidia.com/mig-1g.10gb.memory"] == "9984"
    assert labels["nvidia.com/mig-3g.40gb.multiprocessors"] == "60"
    assert labels["nvidia.com/mig-3g.40gb.slices.gi"] == "3"
    assert labels["nvidia.com/mig-3g.40gb.product"] == "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb"


@given(inventories)
def test_labels_are_valid_for_kubernetes(one: Inventory) -> None:
    for name, value in node_labels(one).items():
        assert len(name.partition("/")[2]) <= 63
        assert len(value) <= 63
        assert all(character.isalnum() or character in "-._" for character in value)
