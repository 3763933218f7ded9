"""Where Workslice is installed: the part of the operator's settings that decides how children look."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Installation:
    """Namespace of routers and operator, and the labels by which engines' NetworkPolicies know them."""

    namespace: str
    router_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the router pods."""
    operator_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the operator's pod."""
