"""Dots in rows as SVG, without a library: percentages on a logarithmic scale, in which what is zero stands at the left edge."""

from collections.abc import Mapping, Sequence
from html import escape
from math import log10

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 720, 170, 30, 40, 22
_COLOURS = ("#c0392b", "#1b6ca8", "#e8a79f", "#9cc3de")
_LEAST, _MOST = 0.05, 100.0
_TICKS = (0.1, 0.3, 1, 3, 10, 30, 100)


def dot_chart(
    title: str, rows: Sequence[str], series: Mapping[str, Sequence[float]], targets: Mapping[str, float]
) -> str:
    """A dot for each value, in the row that it belongs to; a dashed line in the colour of a series for its target."""
    bottom = _TOP + len(rows) * _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 60}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{bottom + 60}" fill="white"/><text x="12" y="22" font-size="14">{escape(title)}</text>',
    ]
    for tick in _TICKS:
        parts.append(
            f'<path d="M{_x(tick):.1f} {_TOP}V{bottom}" stroke="#ddd"/>'
            f'<text x="{_x(tick):.1f}" y="{bottom + 16}" text-anchor="middle">{tick:g} %</text>'
        )
    for number, row in enumerate(rows):
        parts.append(f'<text x="12" y="{_y(number) + 4:.1f}">{escape(row)}</text>')
    for place, ((name, values), colour) in enumerate(zip(series.items(), _COLOURS, strict=False)):
        if name in targets:
            at = _x(targets[name])
            parts.append(f'<path d="M{at:.1f} {_TOP}V{bottom}" stroke="{colour}" stroke-dasharray="4 3"/>')
        for number, value in enumerate(values):
            parts.append(
                f'<circle cx="{_x(value):.1f}" cy="{_y(number):.1f}" r="5" fill="{colour}" fill-opacity="0.8"/>'
            )
        parts.append(f'<text x="{12 + 175 * place}" y="{bottom + 44}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _x(percent: float) -> float:
    bounded = min(_MOST, max(_LEAST, percent))
    return _LEFT + log10(bounded / _LEAST) / log10(_MOST / _LEAST) * (_WIDTH - _LEFT - _RIGHT)


def _y(row: int) -> float:
    return _TOP + (row + 0.5) * _ROW
