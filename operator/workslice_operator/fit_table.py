"""What a model has of each slice that its profile names, as a table of text. Pure."""

from collections.abc import Sequence
from typing import Final

from workslice_api.profile import SliceFit

_HEADS: Final = ("SLICE", "PRODUCT", "USABLE", "WEIGHTS", "OVERHEAD", "KV-CACHE", "KV-TOKENS", "AT-ONCE", "FITS")
_FITS: Final = {True: "yes", False: "no", None: "unknown"}
_GIB: Final = 1024**3


def fit_table(rows: Sequence[SliceFit]) -> list[str]:
    """Lines of the table, heads first; AT-ONCE counts requests of workspace.maxTokens. Empty without rows."""
    if not rows:
        return []
    cells = [_HEADS, *map(_cells, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADS))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _cells(row: SliceFit) -> tuple[str, ...]:
    sizes = (row.usable_bytes, row.weight_bytes, row.overhead_bytes, row.kv_bytes)
    counts = (row.kv_tokens, row.max_concurrent)
    return (
        row.profile,
        row.product or "-",
        *("-" if size is None else f"{size / _GIB:.1f}GiB" for size in sizes),
        *("-" if count is None else str(count) for count in counts),
        _FITS[row.fits],
    )
