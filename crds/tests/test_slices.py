"""Slice names and the Kubernetes resources that stand for them."""

import pytest

from workslice_api.slices import slice_name, slice_of_resource, slice_resource


@pytest.mark.parametrize(
    ("profile", "resource"),
    [
        ("1g.10gb", "nvidia.com/mig-1g.10gb"),
        ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
        ("1g.24gb+me.all", "nvidia.com/mig-1g.24gb.me.all"),
        ("1g.24gb-me", "nvidia.com/mig-1g.24gb-me"),
        ("whole", "nvidia.com/gpu"),
    ],
)
def test_profile_becomes_the_resource_of_the_device_plugin(profile: str, resource: str) -> None:
    assert slice_resource(profile) == resource
    assert slice_resource(profile) == (resource if profile == "whole" else "nvidia.com/mig-" + slice_name(resource))


@pytest.mark.parametrize(
    "profile", ["", "1g", "10gb", "1g.10GB", "0g.10gb", "1g.10gb+xx", "1g.10gb+me ", "1g.10gb\n", "nvidia.com/gpu"]
)
def test_malformed_slice_is_refused(profile: str) -> None:
    with pytest.raises(ValueError, match="not a MIG profile"):
        slice_resource(profile)


@pytest.mark.parametrize("profile", ["whole", "1g.10gb", "1g.10gb+me", "1g.24gb+me.all", "1g.24gb+gfx", "1g.24gb-me"])
def test_a_resource_leads_back_to_the_name_of_its_slice(profile: str) -> None:
    assert slice_of_resource(slice_resource(profile)) == profile


@pytest.mark.parametrize("resource", ["nvidia.com/mig-", "nvidia.com/mig-x.y", "cpu", "nvidia.com/gpu.shared"])
def test_other_resources_are_no_slices(resource: str) -> None:
    assert slice_of_resource(resource) is None
