"""Where Workslice is installed: the part of the operator's settings that decides how children look."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from workslice_api.names import COMPONENT_LABEL


@dataclass(frozen=True)
class Installation:
    """Namespace of routers and operator, and the labels by which engines' NetworkPolicies know them."""

    namespace: str
    router_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the router pods."""
    operator_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the operator's pod."""


def installed_by_chart(namespace: str, release: str) -> Installation:
    """What the chart tells the operator of a release with that name, when no value changes the names of objects."""

    def selector(component: str) -> dict[str, str]:
        labels = {"app.kubernetes.io/name": "workslice", "app.kubernetes.io/instance": release}
        return {**labels, COMPONENT_LABEL: component}

    return Installation(namespace, selector("router"), selector("operator"))
