from typing import Any

import pytest

from workslice_operator.render.placement import merged_affinity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ON_A = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A"]}
IN_ZONE = {"key": "zone", "operator": "Exists"}


def terms(affinity: dict[str, Any] | None) -> Any:
    assert affinity is not None
    return affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def test_without_products_the_affinity_stays_as_it_is() -> None:
    assert merged_affinity(None, []) is None
    assert merged_affinity({"podAntiAffinity": {}}, []) == {"podAntiAffinity": {}}


def test_products_alone_become_one_term() -> None:
    assert terms(merged_affinity(None, ["B", "A"])) == [{"matchExpressions": [{**ON_A, "values": ["A", "B"]}]}]


def test_every_alternative_of_the_template_is_narrowed_to_the_products() -> None:
    theirs = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [IN_ZONE]}, {"matchFields": [{"key": "x"}]}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
        },
        "podAntiAffinity": {"x": 1},
    }
    merged = merged_affinity(theirs, ["A"])
    assert terms(merged) == [
        {"matchExpressions": [IN_ZONE, ON_A]},
        {"matchFields": [{"key": "x"}], "matchExpressions": [ON_A]},
    ]
    assert merged is not None
    assert merged["podAntiAffinity"] == {"x": 1}
    assert merged["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == [{"weight": 1}]


@pytest.mark.parametrize(
    "affinity",
    [
        {"nodeAffinity": "text"},
        {"nodeAffinity": {REQUIRED: 5}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": "text"}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": ["text"]}}},
        {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": 5}]}}},
    ],
)
def test_a_malformed_affinity_is_left_for_the_api_server_to_refuse(affinity: dict[str, Any]) -> None:
    assert merged_affinity(affinity, ["A"]) == affinity


def test_the_pools_own_object_is_not_changed() -> None:
    theirs: dict[str, Any] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [IN_ZONE]}]}}}
    merged_affinity(theirs, ["A"])
    assert theirs == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [IN_ZONE]}]}}}
