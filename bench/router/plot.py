"""Bars side by side as SVG, without a library: what each router takes for each load, in parts of the largest."""

from collections.abc import Mapping
from html import escape

_WIDTH, _LEFT, _BAR, _GAP, _TOP = 720, 230, 14, 14, 40
_COLOURS = ("#1b6ca8", "#7f8c8d", "#c0392b", "#27ae60")


def bar_chart(title: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """One group of bars for each load; within a group they are to scale."""
    names = list(next(iter(groups.values())))
    height = _TOP + len(groups) * (len(names) * _BAR + _GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/><text x="12" y="22" font-size="14">{escape(title)}</text>',
    ]
    y = _TOP
    for group, values in groups.items():
        parts.append(f'<text x="12" y="{y + _BAR * len(names) / 2 + 4:.0f}">{escape(group)}</text>')
        for name, colour in zip(names, _COLOURS, strict=False):
            width = values[name] / max(values.values()) * (_WIDTH - _LEFT - 80)
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 2}" fill="{colour}"/>'
                f'<text x="{_LEFT + width + 6:.1f}" y="{y + 10}">{values[name]:.3g}</text>'
            )
            y += _BAR
        y += _GAP
    for number, (name, colour) in enumerate(zip(names, _COLOURS, strict=False)):
        parts.append(f'<text x="{_LEFT + 130 * number}" y="{height - 10}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
