"""Helm 3.17 makes of the chart what Helm 4 makes of it, and refuses the same values."""

import pytest
from rendered_chart import CHART, helm, refusal, render
from test_chart_renders import VALUES
from test_chart_values_are_strict import REFUSED

from workslice_cluster.client_tools import OLDEST_HELM


def test_it_is_the_version_that_the_documentation_names() -> None:
    assert helm("version", "--short", of=OLDEST_HELM).stdout.startswith("v3.17.")


@pytest.mark.parametrize("values", [*VALUES.values(), {}], ids=[*VALUES, "with CRDs"])
def test_it_renders_the_same_objects(values: dict[str, object]) -> None:
    assert render(values, of=OLDEST_HELM) == render(values)


def test_it_finds_nothing_to_complain_about() -> None:
    result = helm("lint", "--strict", str(CHART), of=OLDEST_HELM)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("case", REFUSED)
def test_it_refuses_wrong_values(case: str) -> None:
    values, named = REFUSED[case]
    part = named.rpartition("/")[2]  # Helm 3 joins the names with dots
    assert part in refusal(values, of=OLDEST_HELM)
