"""Line charts as SVG, without a library."""

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 360, 70, 210, 40, 50
_COLOURS = ("#1b6ca8", "#c0392b", "#7f8c8d", "#27ae60", "#8e44ad", "#d68910", "#2c3e50")


def line_chart(title: str, x_title: str, ticks: Sequence[str], lines: Mapping[str, Sequence[float]]) -> str:
    """Lines over evenly spaced places on a logarithmic scale."""
    values = [value for line in lines.values() for value in line]
    low, high = floor(log10(min(values))), ceil(log10(max(values)))

    def x(place: int) -> float:
        return _LEFT + place * (_WIDTH - _LEFT - _RIGHT) / max(1, len(ticks) - 1)

    def y(value: float) -> float:
        return _TOP + (high - log10(value)) / max(1, high - low) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/><text x="{_LEFT}" y="22" font-size="14">{escape(title)}</text>',
    ]
    for power in range(low, high + 1):
        for factor in (1, 2, 5):
            value = factor * 10.0**power
            if value <= 10.0**high:
                parts.append(
                    f'<path d="M{_LEFT} {y(value):.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>'
                    f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>'
                )
    for place, tick in enumerate(ticks):
        parts.append(
            f'<text x="{x(place):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{escape(tick)}</text>'
        )
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 10}">{escape(x_title)}</text>')
    for number, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in enumerate(line))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        height = _TOP + 18 * number + 10
        parts.append(f'<text x="{_WIDTH - _RIGHT + 12}" y="{height}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
