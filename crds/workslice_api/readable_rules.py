"""Patterns as CEL rules: the API server then answers with a sentence instead of a regular expression."""

from collections.abc import Callable
from typing import Any


def rule_for_pattern(message: str) -> Callable[[dict[str, Any]], None]:
    """A `json_schema_extra` that turns the field's pattern into a validation rule with that message."""

    def replace(schema: dict[str, Any]) -> None:
        pattern = schema.pop("pattern")
        schema["x-kubernetes-validations"] = [{"rule": f"self.matches(r'{pattern}')", "message": message}]

    return replace
