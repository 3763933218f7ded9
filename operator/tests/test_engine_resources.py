import pytest
from pool_facts import make_profile

from workslice_operator.render.engine_resources import engine_resources


@pytest.mark.parametrize(
    ("slice_", "cpu", "memory"),
    [
        ("1g.10gb", "2", "8Gi"),
        ("1g.20gb+me", "2", "8Gi"),
        ("2g.20gb", "2", "12Gi"),
        ("3g.40gb", "4", "16Gi"),
        ("4g.24gb", "4", "16Gi"),
        ("7g.80gb", "8", "32Gi"),
        ("whole", "8", "32Gi"),
    ],
)
def test_what_the_profile_leaves_open_follows_from_the_slice(slice_: str, cpu: str, memory: str) -> None:
    resources = engine_resources(make_profile(slice={"profiles": [slice_]}))
    assert resources["requests"] == {"cpu": cpu, "memory": memory}
    assert resources["limits"]["memory"] == memory


def test_what_the_profile_says_counts() -> None:
    profile = make_profile(memory={"host": "3Gi"}, cpu={"request": "50m", "limit": "1"})
    resources = engine_resources(profile)
    assert resources["requests"] == {"cpu": "50m", "memory": "3Gi"}
    assert resources["limits"] == {"cpu": "1", "memory": "3Gi", "nvidia.com/mig-1g.10gb": "1"}


def test_a_default_request_never_exceeds_the_limit_since_the_api_would_refuse_the_pod() -> None:
    assert engine_resources(make_profile(cpu={"limit": "500m"}))["requests"]["cpu"] == "500m"
    assert engine_resources(make_profile(cpu={"limit": "16"}))["requests"]["cpu"] == "2"
