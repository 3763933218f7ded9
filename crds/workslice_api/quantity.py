"""Kubernetes quantities ("16Gi", "500m") and durations ("90s", "5m") as typed strings, and their numbers."""

import re
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

from workslice_api.readable_rules import quantity_rule, rule_for_pattern

_SUFFIX: Final[dict[str, Decimal]] = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
}
_ANY_SUFFIX: Final = _SUFFIX | {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}
_ANY_QUANTITY: Final = re.compile(
    r"\+?([0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,10}))?", re.ASCII
)
_LARGEST: Final = Decimal(2**63 - 1)
QUANTITY_PATTERN: Final = r"^[0-9]+(\.[0-9]{1,6})?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"
DURATION_PATTERN: Final = r"^([0-9]+(\.[0-9]{1,3})?(ms|s|m|h))+$"
_DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]{1,3})?)(ms|s|m|h)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Quantity = Annotated[
    str,
    BeforeValidator(_as_text),
    Field(max_length=24, pattern=QUANTITY_PATTERN),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "x-kubernetes-validations": [quantity_rule(QUANTITY_PATTERN)],
            "maxLength": 24,
        }
    ),
]
"""An amount of memory or CPU such as 16Gi, 1500M or 500m."""

Duration = Annotated[
    str,
    Field(
        max_length=24,
        pattern=DURATION_PATTERN,
        json_schema_extra=rule_for_pattern("must be a duration with a unit, such as 500ms, 90s, 5m or 1h30m"),
    ),
]
"""A time span such as 500ms, 90s, 5m or 1h30m."""


def quantity_value(text: str) -> Decimal:
    """The number that a quantity stands for (bytes for memory, cores for CPU).

    Raises:
        ValueError: the text is not a quantity.
    """
    if not re.fullmatch(QUANTITY_PATTERN, text):
        raise ValueError(f"not a quantity: {text!r}")
    number = re.match(r"[0-9]+(\.[0-9]+)?", text)
    assert number is not None
    return Decimal(number.group()) * _SUFFIX[text[number.end() :]]


def count_of(amount: Any) -> int:
    """The whole number that a quantity of somebody else's object stands for, in any way that Kubernetes writes one; what is beyond its
    numbers is its largest.

    Raises:
        ValueError: the text is not a quantity.
    """
    found = _ANY_QUANTITY.fullmatch(str(amount))
    if not found:
        raise ValueError(f"not a quantity: {amount!r}")
    number, suffix, exponent = found.groups()
    factor = Decimal(10) ** max(-999, min(int(exponent), 999)) if exponent else _ANY_SUFFIX[suffix or ""]
    return int(min(Decimal(number) * factor, _LARGEST))


def quantity_bytes(text: str) -> int:
    """Whole bytes of a memory quantity, rounded up as Kubernetes does."""
    return int(quantity_value(text).to_integral_value(rounding="ROUND_CEILING"))


def duration_seconds(text: str) -> float:
    """Seconds of a duration.

    Raises:
        ValueError: the text is not a duration.
    """
    if not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(f"not a duration: {text!r}")
    return sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
