"""Line charts as inline SVG, in the colours of the page. Matplotlib is not needed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 280
_MOST_MARKS = 60  # points of a curve that are marked; more would hide the line
_TICKS_WANTED = 5  # numbers on an axis
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 38, 40


@dataclass(frozen=True)
class Line:
    """One curve: its name, colour (also a variable of the page's style) and points."""

    name: str
    color: str
    x: Sequence[float]
    y: Sequence[float]


def line_chart(
    title: str,
    lines: Sequence[Line],
    x_label: str,
    *,
    log_y: bool = False,
    y_range: tuple[float, float] | None = None,
    level: tuple[float, str] | None = None,
    fill_between: bool = False,
    percent: bool = False,
) -> str:
    """An ``<svg>`` element with axes, curves and their names.

    Parameters
    ----------
    log_y : bool
        Logarithmic second axis; all values must be positive.
    y_range : (low, high)
        Limits of the second axis; curves are clipped to it.
    level : (value, text)
        A dashed horizontal line.
    fill_between : bool
        Shade what lies between the first two curves.
    percent : bool
        The second axis in percent.
    """
    x_values = [value for line in lines for value in line.x]
    y_values = [value for line in lines for value in line.y] + ([level[0]] if level else [])
    x_low, x_high = 0.0, max(max(x_values), 1e-9)
    y_low, y_high = y_range or (min(y_values), max(y_values))
    if log_y:
        y_low, y_high = math.floor(math.log10(y_low)), math.ceil(math.log10(y_high))
    if y_high <= y_low:
        y_low, y_high = y_low - 0.5, y_high + 0.5

    def place_x(x: float) -> float:
        return _LEFT + (x - x_low) / (x_high - x_low) * (WIDTH - _LEFT - _RIGHT)

    def place_y(y: float) -> float:
        value = math.log10(y) if log_y else y
        # Points far outside the frame are moved nearer, so that numbers stay short.
        share = min(max((value - y_low) / (y_high - y_low), -9.0), 10.0)
        return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)

    parts = [
        _frame(title, x_label),
        *_x_ticks(x_low, x_high, place_x),
        *_y_ticks(y_low, y_high, log_y, percent, place_y),
    ]
    width, height = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    box = f'x="{_LEFT}" y="{_TOP}" width="{width}" height="{height}"'
    parts.append(f'<svg {box} viewBox="{_LEFT} {_TOP} {width} {height}" overflow="hidden">')
    if fill_between and len(lines) > 1:
        outline = [
            *zip(lines[0].x, lines[0].y, strict=True),
            *reversed(list(zip(lines[1].x, lines[1].y, strict=True))),
        ]
        parts.append(f'<polygon points="{_points(outline, place_x, place_y)}" fill="var(--band)"/>')
    for line in lines:
        points = list(zip(line.x, line.y, strict=True))
        parts.append(
            f'<polyline points="{_points(points, place_x, place_y)}" fill="none" stroke="{line.color}" '
            'stroke-width="2.2" stroke-linejoin="round"/>'
        )
        if len(points) <= _MOST_MARKS:
            for x, y in points:
                parts.append(
                    f'<circle cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" r="3" fill="{line.color}"/>'
                )
    parts.append("</svg>")
    if level:
        parts.append(_level(level, place_y))
    for number, line in enumerate(lines):
        parts.append(_text(WIDTH - _RIGHT, _TOP + 14 + 17 * number, line.name, line.color, "end", weight=600))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _frame(title: str, x_label: str) -> str:
    bottom = HEIGHT - _BOTTOM
    return (
        _text(_LEFT, 20, title, "var(--ink)", size=14, weight=600)
        + _text((WIDTH + _LEFT - _RIGHT) / 2, HEIGHT - 6, x_label, "var(--soft)", "middle")
        + f'<path d="M{_LEFT} {_TOP}V{bottom}H{WIDTH - _RIGHT}" fill="none" stroke="var(--line)"/>'
    )


def _x_ticks(low: float, high: float, place_x: Callable[[float], float]) -> list[str]:
    y = HEIGHT - _BOTTOM + 16
    return [_text(place_x(value), y, f"{value:g}", "var(--soft)", "middle") for value in ticks(low, high)]


def _y_ticks(
    low: float, high: float, log_y: bool, percent: bool, place_y: Callable[[float], float]
) -> list[str]:
    parts = []
    if log_y:
        step = max(1, math.ceil((high - low) / 6))
        values = [10.0**k for k in range(int(low), int(high) + 1, step)]
    else:
        values = ticks(low, high)
    for value in values:
        text, y = f"{100 * value:g} %" if percent else f"{value:,.6g}", place_y(value)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="var(--grid)"/>')
        parts.append(_text(_LEFT - 7, y + 4, text, "var(--soft)", "end"))
    return parts


def _level(level: tuple[float, str], place_y: Callable[[float], float]) -> str:
    y = place_y(level[0])
    return (
        f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="var(--soft)" stroke-dasharray="5 4"/>'
        + _text(_LEFT + 6, y - 5, level[1], "var(--soft)")
    )


def _text(
    x: float, y: float, text: str, color: str, anchor: str = "start", size: int = 11, weight: int = 400
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def _points(
    points: Sequence[tuple[float, float]],
    place_x: Callable[[float], float],
    place_y: Callable[[float], float],
) -> str:
    return " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in points)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from `low` to `high`, about five of them."""
    if not high > low:
        return [low]
    raw = (high - low) / _TICKS_WANTED
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]
