"""Patterns as CEL rules: the API server then answers with a sentence instead of a regular expression."""

from collections.abc import Callable
from typing import Any, Final

QUANTITY_MESSAGE: Final = (
    "write a number of at least 0 with k, M, G, T (powers of 1000), Ki, Mi, Gi, Ti (of 1024) or m (a thousandth), "
    "such as 3G or 3Gi"
)


def rule_for_pattern(message: str) -> Callable[[dict[str, Any]], None]:
    """A `json_schema_extra` that turns the field's pattern into a validation rule with that message."""

    def replace(schema: dict[str, Any]) -> None:
        pattern = schema.pop("pattern")
        schema["x-kubernetes-validations"] = [{"rule": f"self.matches(r'{pattern}')", "message": message}]

    return replace


def quantity_rule(pattern: str) -> dict[str, str]:
    """The validation rule of a quantity, which the API takes as a number or as text; its message repeats a wrong text."""
    return {
        "rule": f"type(self) == string ? self.matches(r'{pattern}') : self >= 0",
        # Fails for a number, and then `message` is used: string(self) would serve both, but the API server cannot estimate its cost.
        "messageExpression": f"self + ' is no Kubernetes quantity: {QUANTITY_MESSAGE}'",
        "message": QUANTITY_MESSAGE,
    }
