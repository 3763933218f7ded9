"""A second operator is a value away, on another node where there is one."""

from typing import Any

from rendered_chart import named, refusal, render


def operator(**values: Any) -> dict[str, Any]:
    spec = named(render({"crds": {"enabled": False}, "operator": values}), "Deployment", "workslice-operator")["spec"]
    assert isinstance(spec, dict)
    return spec


def test_there_is_one_operator_by_default() -> None:
    assert operator()["replicas"] == 1
    assert "topologySpreadConstraints" not in operator()["template"]["spec"]


def test_several_operators_keep_apart() -> None:
    spec = operator(replicas=2)
    assert spec["replicas"] == 2
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")
    assert spread["labelSelector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_no_operator_at_all_is_refused() -> None:
    assert "/operator/replicas" in refusal({"operator": {"replicas": 0}})
