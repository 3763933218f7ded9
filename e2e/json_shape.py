"""What a JSON document is made of, without what it says: its keys and the types behind them."""

from typing import Any


def shape(value: Any) -> Any:
    """Keys with the shapes of their values; a list has the shapes of its items, each once; everything else is its type's name."""
    if isinstance(value, dict):
        return {key: shape(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return sorted({repr(shape(item)) for item in value})
    return "number" if isinstance(value, float) else type(value).__name__
