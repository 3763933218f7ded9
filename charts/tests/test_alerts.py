"""Alerts that can fire: their expressions parse and ask for metrics, labels and reasons that exist; each has a runbook entry."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import promql_parser
import pytest
import yaml
from rendered_chart import CHART, render

from workslice_api.base import Condition
from workslice_api.names import ConditionType, Reason
from workslice_operator import metrics as operator_metrics
from workslice_operator.faults import is_fault
from workslice_router import metrics as router_metrics
from workslice_router.openai_errors import Reason as ErrorReason

RUNBOOK = (CHART.parents[1] / "docs" / "runbook.md").read_text()
GROUPS = yaml.safe_load((CHART / "alerts.yaml").read_text())["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
METRICS = {one.name: one for one in chain(operator_metrics.METRICS, router_metrics.DEFINITIONS)}
OF_PROFILES = (ConditionType.ACCEPTED, ConditionType.FITS)
VALUES = {"crds": {"enabled": False}, "prometheusRule": {"enabled": True, "labels": {"release": "stack"}}}


def selectors(expression: str) -> list[promql_parser.VectorSelector]:
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        return True

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


def matches(matcher: promql_parser.Matcher, value: str) -> bool:
    is_regular = matcher.op in (promql_parser.MatchOp.Re, promql_parser.MatchOp.NotRe)
    negated = matcher.op in (promql_parser.MatchOp.NotEqual, promql_parser.MatchOp.NotRe)
    found = re.fullmatch(matcher.value, value) is not None if is_regular else value == matcher.value
    return found != negated


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_asks_for_metrics_and_labels_that_exist(alert: str) -> None:
    found = selectors(ALERTS[alert]["expr"])
    assert found
    for one in found:
        assert one.name in METRICS
        assert {matcher.name for matcher in one.matchers.matchers} <= set(METRICS[one.name].labels)


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_asks_for_reasons_and_conditions_that_exist(alert: str) -> None:
    known = {
        "condition": {one.value for one in ConditionType},
        "reason": {one.value for one in (*Reason, *ErrorReason)},
    }
    for one in selectors(ALERTS[alert]["expr"]):
        for matcher in one.matchers.matchers:
            if matcher.name in known:
                assert set(matcher.value.split("|")) <= known[matcher.name]


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_says_what_when_and_where_to_read_on(alert: str) -> None:
    rule = ALERTS[alert]
    assert set(rule) == {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{alert.lower()}"


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_names_only_labels_that_its_expression_keeps(alert: str) -> None:
    rule = ALERTS[alert]
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    assert used <= set(labels_of(promql_parser.parse(rule["expr"])))


def labels_of(node: Any) -> Iterator[str]:
    if isinstance(node, promql_parser.AggregateExpr):
        yield from node.modifier.labels if node.modifier else ()
    elif isinstance(node, promql_parser.VectorSelector):
        yield from METRICS[str(node.name)].labels
    elif isinstance(node, promql_parser.BinaryExpr):
        yield from chain(labels_of(node.lhs), labels_of(node.rhs))


def test_every_alert_has_a_section_of_the_runbook_and_every_section_an_alert() -> None:
    assert set(re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE)) == set(ALERTS)


@pytest.mark.parametrize("section", RUNBOOK.split("\n## ")[1:], ids=lambda text: text.split()[0])
def test_a_section_of_the_runbook_says_what_it_means_where_to_look_and_what_to_do(section: str) -> None:
    assert re.findall(r"^\*(\w+):\*", section, re.MULTILINE) == ["Means", "Look", "Do"]


def faults() -> Iterator[tuple[str, str, str]]:
    """Metric, condition and reason of every fault that a condition can be."""
    for type_ in ConditionType:
        for reason in Reason:
            for status in ("True", "False", "Unknown"):
                one = Condition.model_validate(
                    {"type": type_, "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
                )
                if is_fault(one):
                    whose = "profile" if type_ in OF_PROFILES else "pool"
                    yield f"workslice_operator_{whose}_fault", type_, reason


def test_every_fault_of_a_condition_fires_an_alert() -> None:
    silent = set(faults())
    for rule in ALERTS.values():
        for one in selectors(rule["expr"]):
            for fault in list(silent):
                given = {"condition": fault[1], "reason": fault[2]}
                wanted = [m for m in one.matchers.matchers if m.name in given]
                if one.name == fault[0] and all(matches(m, given[m.name]) for m in wanted):
                    silent.discard(fault)
    assert silent == set()


def test_the_chart_makes_a_prometheus_rule_of_the_file_only_when_asked() -> None:
    assert [one for one in render({"crds": {"enabled": False}}) if "monitoring.coreos.com" in one["apiVersion"]] == []
    (rule,) = [one for one in render(VALUES) if one["kind"] == "PrometheusRule"]
    assert rule["metadata"]["labels"]["release"] == "stack"
    given = [one for group in rule["spec"]["groups"] for one in group["rules"]]
    base = "https://github.com/workslice/workslice/blob/main/"
    for one in given:
        url = one["annotations"]["runbook_url"]
        assert url.startswith(base)
        one["annotations"]["runbook_url"] = url.removeprefix(base)
    assert {one["alert"]: one for one in given} == ALERTS


def test_pod_monitors_find_the_pods_and_keep_the_namespace_of_a_pool() -> None:
    objects = render({"crds": {"enabled": False}, "podMonitor": {"enabled": True, "labels": {"release": "stack"}}})
    monitors = [one for one in objects if one["kind"] == "PodMonitor"]
    assert [one["metadata"]["name"] for one in monitors] == ["workslice-operator", "workslice-router"]
    pods = [one["spec"]["template"] for one in objects if one["kind"] == "Deployment"]
    for monitor in monitors:
        assert monitor["metadata"]["labels"]["release"] == "stack"
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["honorLabels"] is True
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (pod,) = [one for one in pods if wanted <= one["metadata"]["labels"].items()]
        ports = [port["name"] for container in pod["spec"]["containers"] for port in container["ports"]]
        assert endpoint["port"] in ports
