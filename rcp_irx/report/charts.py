"""Charts as inline SVG: curves, a reliability diagram, boxes. Colours are the page's; each has a description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH, HEIGHT = 560, 320
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 12, 44


class Curve(NamedTuple):
    """A line through points; `kind` is its CSS class."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    kind: str


class Axis(NamedTuple):
    """A range with its ticks."""

    name: str
    low: float
    high: float
    ticks: Sequence[float]
    left: int = LEFT


class Box(NamedTuple):
    """Five percentiles (5, 25, 50, 75, 95) of a row's values."""

    name: str
    kind: str
    percentiles: Sequence[float]


def curves(lines: Sequence[Curve], x: Axis, y: Axis, description: str) -> Markup:
    """Curves over one plane, each named at its end in a legend below."""
    parts = [_frame(x, y, HEIGHT)]
    for line in lines:
        points = " ".join(f"{_x(a, x):.1f},{_y(b, y, HEIGHT):.1f}" for a, b in zip(line.x, line.y, strict=True))
        parts.append(Markup('<polyline class="{}" points="{}"/>').format(line.kind, points))
    names = [Markup('<li><i class="key {}"></i>{}</li>').format(line.kind, line.name) for line in lines]
    legend = Markup('<ul class="legend">') + Markup("").join(names) + Markup("</ul>")
    return _figure(parts, HEIGHT, description) + legend


def reliability(predicted: Sequence[float], observed: Sequence[float], answers: Sequence[float], text: str) -> Markup:
    """Observed over predicted pass rates; a dot's area grows with its answers; the diagonal is perfect calibration."""
    axis = Axis("predicted pass probability", 0.0, 1.0, (0, 0.25, 0.5, 0.75, 1))
    other = Axis("observed share of passes", 0.0, 1.0, axis.ticks)
    parts = [_frame(axis, other, HEIGHT)]
    parts.append(_line(_x(0, axis), _y(0, other, HEIGHT), _x(1, axis), _y(1, other, HEIGHT), "guide"))
    largest = max(answers, default=1.0) or 1.0
    for a, b, n in zip(predicted, observed, answers, strict=True):
        radius = 2.0 + 8.0 * (n / largest) ** 0.5
        parts.append(
            Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"/>').format(
                _x(a, axis), _y(b, other, HEIGHT), radius
            )
        )
    return _figure(parts, HEIGHT, text)


def boxes(rows: Sequence[Box], axis: Axis, description: str) -> Markup:
    """One box per row: a line from the 5th to the 95th percentile, a bar from the 25th to the 75th, the median."""
    height = TOP + BOTTOM + 22 * len(rows)
    parts = [_ticks(axis, height)]
    for place, row in enumerate(rows):
        middle = TOP + 22 * place + 11
        low, first, median, third, high = (_x(value, axis) for value in row.percentiles)
        parts.append(Markup('<text x="0" y="{}">{}</text><g class="{}">').format(middle + 4, row.name, row.kind))
        parts.append(_line(low, middle, high, middle))
        bar = '<rect x="{:.1f}" y="{}" width="{:.1f}" height="12"/>'
        parts.append(Markup(bar).format(first, middle - 6, max(third - first, 0.5)))
        parts.append(_line(median, middle - 6, median, middle + 6, "median") + Markup("</g>"))
    return _figure(parts, height, description)


def ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """About so many round numbers from the least to the greatest."""
    step = next(
        size * 10.0**power
        for power in range(-6, 7)
        for size in (1, 2, 5)
        if (high - low) / (size * 10.0**power) <= wanted
    )
    first = -int(-low // step) if low >= 0 else int(low // step)
    return [round(step * i, 10) for i in range(first, int(high // step) + 1) if low <= step * i <= high]


def _line(x1: float, y1: float, x2: float, y2: float, kind: str = "") -> Markup:
    shape = '<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>'
    return Markup(shape).format(kind, x1, y1, x2, y2)


def _x(value: float, axis: Axis) -> float:
    share = (min(max(value, axis.low), axis.high) - axis.low) / (axis.high - axis.low)
    return axis.left + share * (WIDTH - axis.left - RIGHT)


def _y(value: float, axis: Axis, height: float) -> float:
    share = (min(max(value, axis.low), axis.high) - axis.low) / (axis.high - axis.low)
    return height - BOTTOM - share * (height - TOP - BOTTOM)


def _frame(x: Axis, y: Axis, height: float) -> Markup:
    rows = [_ticks(x, height)]
    for tick in y.ticks:
        place = _y(tick, y, height)
        rows.append(
            _line(LEFT, place, WIDTH - RIGHT, place, "grid")
            + Markup('<text class="tick end" x="{}" y="{:.1f}">{:g}</text>').format(LEFT - 6, place + 4, tick)
        )
    rows.append(
        Markup('<text class="name" transform="translate(12 {:.1f}) rotate(-90)">{}</text>').format(
            (height - BOTTOM + TOP) / 2, y.name
        )
    )
    return Markup("").join(rows)


def _ticks(x: Axis, height: float) -> Markup:
    rows = []
    for tick in x.ticks:
        place = _x(tick, x)
        rows.append(
            _line(place, TOP, place, height - BOTTOM, "grid")
            + Markup('<text class="tick mid" x="{:.1f}" y="{}">{:g}</text>').format(place, height - BOTTOM + 16, tick)
        )
    middle = (x.left + WIDTH - RIGHT) / 2
    rows.append(Markup('<text class="name" x="{:.1f}" y="{}">{}</text>').format(middle, height - 8, x.name))
    return Markup("").join(rows)


def _figure(parts: Sequence[Markup], height: float, description: str) -> Markup:
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, height, escape(description), Markup("").join(parts)
    )
