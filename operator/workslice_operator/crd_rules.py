"""The CRDs' own validation rules (CEL), evaluated without an API server; needs the extra `render`. Pure."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

try:
    import cel
except ModuleNotFoundError:  # the operator's image has no use for it
    RULES_ARE_CHECKED = False
else:
    RULES_ARE_CHECKED = True

_RULES: Final = "x-kubernetes-validations"


def broken_rules(schema: Mapping[str, Any], value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Path and message of every rule that a value breaks, as the API server says it; nothing without the extra `render`.

    `schema` is structural, `value` has its defaults filled in. Rules that compare with an earlier version are left out.
    """
    yield from ((path, message) for message in broken_here(schema, value))
    if isinstance(value, Mapping):
        known = schema.get("properties", {})
        for name, below in value.items():
            inner = known.get(name, schema.get("additionalProperties"))
            if isinstance(inner, Mapping):
                yield from broken_rules(inner, below, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from broken_rules(schema.get("items", {}), below, f"{path}[{index}]")


def broken_here(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    """Messages of the rules of this very node that its value breaks."""
    if not RULES_ARE_CHECKED:
        return
    for rule in schema.get(_RULES, ()):
        if "oldSelf" not in rule["rule"] and not cel.evaluate(rule["rule"], _context(value)):
            yield _message(rule, value)


def _message(rule: Mapping[str, str], value: Any) -> str:
    # An expression that cannot be evaluated gives way to the fixed message, as at the API server.
    try:
        return str(cel.evaluate(rule["messageExpression"], _context(value)))
    except (KeyError, RuntimeError, TypeError, ValueError):
        return rule["message"]


def _context(value: Any) -> Any:
    # Functions of Kubernetes that the library leaves to its users.
    functions: dict[str, Callable[..., Any]] = {
        "split": lambda text, by: text.split(by),
        "replace": lambda text, old, new: text.replace(old, new),
        "getHours": _hours,
    }
    return cel.Context(variables={"self": value}, functions=functions)


def _hours(moment: datetime, zone: str) -> int:
    """Hour there; for a zone that does not exist, at which the API server fails, one that no rule wants."""
    try:
        return moment.astimezone(ZoneInfo(zone)).hour
    except (LookupError, OSError, ValueError):
        return -1
