"""docs/reference/metrics.md: every metric of operator and routers, from the tables that declare them."""

from collections.abc import Iterable
from typing import Protocol

from markdown_table import code, markdown_table

from workslice_api import names
from workslice_operator import metrics as operator_metrics
from workslice_router import metrics as router_metrics

INTRODUCTION = f"""# Metrics

Both programs serve the Prometheus text format at `/metrics`: the operator on port {names.OPERATOR_METRICS_PORT}, every router on its
admin port {names.ROUTER_ADMIN_PORT}. The chart's NetworkPolicies keep those ports closed until the value
`networkPolicy.monitoringNamespaceSelector` names the namespaces that may read them. The operator also exports the `process_` metrics of
its own process. The engines' own `vllm:` metrics stay on the engines.
"""


class Metric(Protocol):
    """One row of either table."""

    @property
    def name(self) -> str:
        """Name as Prometheus stores it."""

    @property
    def type(self) -> str:
        """counter, gauge or histogram."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels."""

    @property
    def help(self) -> str:
        """One sentence."""


def render_metrics_page() -> str:
    """The page as Markdown."""
    router = f"\n## Router\n\n{_table(router_metrics.DEFINITIONS)}"
    return f"{INTRODUCTION}{router}\n## Operator\n\n{_table(operator_metrics.METRICS)}"


def _table(metrics: Iterable[Metric]) -> str:
    rows = ((code(one.name), one.type, ", ".join(map(code, one.labels)), one.help) for one in metrics)
    return markdown_table(("Metric", "Type", "Labels", "Meaning"), rows)
