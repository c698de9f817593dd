"""Line plots as inline SVG: axes, logarithms, labels at the ends of the lines. Nothing but text comes out.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart; shapes of the points tell them apart in
print. Text and axes take the colour of the page around them, so that a plot fits a dark page as it fits a light one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from regard.report import charts

COLOURS = tuple(colour for colour in charts.COLOURS if colour != charts.BLACK)      # which no dark page would show
GREY = "#808080"                         # of what is only there to be compared with: style -1
SHAPES = ("circle", "square", "diamond", "triangle")
WIDTH, HEIGHT = 620, 360
LEFT, RIGHT, TOP, BOTTOM = 62, 128, 14, 44
LINE_HEIGHT = 15


@dataclass(frozen=True)
class Curve:
    """Some points under a name. `open_from`: points from this one on are drawn open, and joined by a broken line."""

    name: str
    points: Sequence[tuple[float, float]]
    style: int = 0                       # the same for all lines of one thing
    open_from: int | None = None
    labelled: bool = True
    dotted: bool = True                  # a mark at each point; else only at the last


@dataclass(frozen=True)
class Axis:
    """A range of values laid along so many pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, value = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            return list(_log_ticks(self.low, self.high))
        step = _round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        return [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


def make_axis(values: Sequence[float], start: float, end: float, log: bool) -> Axis:
    low, high = min(values), max(values)
    if log:
        return Axis(low / 1.15, high * 1.15, start, end, True)
    room = 0.04 * (high - low) or 0.5 * abs(high) or 1.0
    return Axis(0.0 if 0 <= low < 0.3 * high else low - room, high + room, start, end)


def _log_ticks(low: float, high: float) -> Iterator[float]:
    decades = math.log10(high / low)
    marks = (1, 2, 5) if decades < 2.7 else (1,)
    each = 1 if decades <= 6 else 2
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1, each):
        yield from (m * 10.0**power for m in marks if low <= m * 10.0**power <= high)


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)


def show_tick(value: float) -> str:
    """A tick: 0.002, 1.5, 20k, 3M."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:.4g}"


def plot(
    lines: Sequence[Curve], *, title: str, x: str, y: str, log_x: bool = False, log_y: bool = False,
    level: tuple[str, float] | None = None,
) -> str:
    """An SVG figure of these lines; `level` is a named horizontal line to be crossed."""
    lines = [line for line in lines if line.points]
    if not lines:
        return "<p>There is nothing to plot yet.</p>"
    xs = [point[0] for line in lines for point in line.points]
    ys = [point[1] for line in lines for point in line.points] + ([level[1]] if level else [])
    across = make_axis(xs, LEFT, WIDTH - RIGHT, log_x)
    up = make_axis(ys, HEIGHT - BOTTOM, TOP, log_y)
    parts = [*_frame(across, up, x, y)]
    if level:
        parts.append(f'<line class="level" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up.at(level[1]):.1f}" '
                     f'y2="{up.at(level[1]):.1f}"/>')
    for line in lines:
        parts += _line(line, across, up)
    parts += _labels(lines, level, across, up)
    about = f"{title}. " + " ".join(f"{line.name}: {_describe(line)}." for line in lines if line.labelled)
    return (f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(about, quote=True)}">'
            + "".join(parts) + "</svg>")


def _describe(line: Curve) -> str:
    (x1, y1), (x2, y2) = line.points[0], line.points[-1]
    first = f"{show_tick(y1)} at {show_tick(x1)}"
    return first + (f", {show_tick(y2)} at {show_tick(x2)}" if len(line.points) > 1 else "")


def _frame(across: Axis, up: Axis, x: str, y: str) -> Iterator[str]:
    for tick in up.ticks():
        place = up.at(tick)
        yield f'<line class="grid" x1="{across.start}" x2="{across.end}" y1="{place:.1f}" y2="{place:.1f}"/>'
        yield (f'<text class="tick" x="{across.start - 8}" y="{place + 4:.1f}" text-anchor="end">'
               f"{show_tick(tick)}</text>")
    for tick in across.ticks():
        place = across.at(tick)
        yield f'<line class="mark" x1="{place:.1f}" x2="{place:.1f}" y1="{up.start}" y2="{up.start + 4}"/>'
        yield f'<text class="tick" x="{place:.1f}" y="{up.start + 17}" text-anchor="middle">{show_tick(tick)}</text>'
    yield f'<line class="mark" x1="{across.start}" x2="{across.end}" y1="{up.start}" y2="{up.start}"/>'
    middle, height = (across.start + across.end) / 2, (up.start + up.end) / 2
    yield f'<text class="name" x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x)}</text>'
    yield (f'<text class="name" transform="translate(14 {height:.0f}) rotate(-90)" '
           f'text-anchor="middle">{escape(y)}</text>')


def colour_of(style: int) -> str:
    return GREY if style < 0 else COLOURS[style % len(COLOURS)]


def shape_of(style: int) -> str:
    """Beyond the last colour they begin again, with other shapes."""
    return SHAPES[(style + max(0, style) // len(COLOURS)) % len(SHAPES)]


def _line(line: Curve, across: Axis, up: Axis) -> Iterator[str]:
    colour = colour_of(line.style)
    places = [(across.at(px), up.at(py)) for px, py in line.points]
    cut = len(places) if line.open_from is None else line.open_from
    for piece, dashes in ((places[:cut], ""), (places[max(0, cut - 1):], ' stroke-dasharray="4 4"')):
        if len(piece) > 1:
            path = " ".join(f"{px:.1f},{py:.1f}" for px, py in piece)
            yield f'<polyline fill="none" stroke="{colour}" stroke-width="1.8"{dashes} points="{path}"/>'
    for place, (px, py) in enumerate(places):
        if not line.dotted and place + 1 < len(places):
            continue
        yield _point(px, py, shape_of(line.style), colour, hollow=place >= cut)


def _point(x: float, y: float, shape: str, colour: str, hollow: bool = False) -> str:
    paint = f'class="hollow" stroke="{colour}" stroke-width="1.5"' if hollow else f'fill="{colour}"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" {paint}/>'
    corners = {"square": ((-2.7, -2.7), (2.7, -2.7), (2.7, 2.7), (-2.7, 2.7)),
               "diamond": ((0, -3.8), (3.8, 0), (0, 3.8), (-3.8, 0)),
               "triangle": ((0, -3.6), (3.4, 2.6), (-3.4, 2.6))}[shape]
    return f'<polygon points="{" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)}" {paint}/>'


def _labels(
    lines: Sequence[Curve], level: tuple[str, float] | None, across: Axis, up: Axis
) -> Iterator[str]:
    """Each name beside the end of its line, moved apart where they would lie over one another."""
    wanted: list[tuple[float, str, Curve | None]] = [
        (up.at(line.points[-1][1]), line.name, line) for line in lines if line.labelled]
    if level:
        wanted.append((up.at(level[1]), level[0], None))
    wanted.sort(key=lambda each: each[:2])
    heights = spread([height for height, _, _ in wanted], LINE_HEIGHT, TOP + 4, HEIGHT - BOTTOM + 4)
    x = across.end + 14
    for height, (at, name, line) in zip(heights, wanted, strict=True):
        if line is None:
            yield f'<text class="tick" x="{x}" y="{height + 4:.1f}">{escape(name)}</text>'
            continue
        colour, end = colour_of(line.style), across.at(line.points[-1][0])
        yield (f'<line x1="{end + 4:.1f}" y1="{at:.1f}" x2="{x - 3}" y2="{height:.1f}" stroke="{colour}" '
               'stroke-width="0.75" opacity="0.5"/>')
        yield _point(x + 3, height, shape_of(line.style), colour)
        yield f'<text class="label" x="{x + 11}" y="{height + 4:.1f}">{escape(name)}</text>'


def spread(heights: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Sorted heights moved as little as it takes to stand `apart`, within bounds where they fit."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + apart) if placed else max(height, low))
    limit = high
    for n in range(len(placed) - 1, -1, -1):
        placed[n] = min(placed[n], limit)
        limit = placed[n] - apart
    return placed
