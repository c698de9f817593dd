"""A map for the terminal: shaded cells under upright labels, in as many panels as the width asks for.

With colour a cell is painted, with its weight in percent where there is room; without, it is one of ` ░▒▓█`. A dot
marks a gold link, a minus an amount below zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from regard.look.render.colours import dark_colour, ink_on
from regard.look.render.labels import ISOLATE, LEFT_TO_RIGHT, fitted, graphemes, in_its_own_direction, padded, visible
from regard.look.render.maps import Map

SHADES = " ░▒▓█"
DOT, MINUS = "•", "-"
FAINT = 0.125                             # a shade below it is drawn as nothing
TALLEST = 14                              # rows that upright labels may take; longer ones get numbers and a key
NARROWEST = 20                            # columns of a terminal below which nothing is drawn any narrower


def show(seen: Map, console: Console | None = None) -> None:
    """Print a map on the terminal, in colour if it has any."""
    console = console or Console()
    colour = console.color_system is not None and not console.no_color
    console.print(heat_map(seen, console.width, colour=colour), soft_wrap=True)


def plain(seen: Map, width: int = 100) -> str:
    """The map as lines of text without colour."""
    lines = heat_map(seen, width, colour=False).plain.split("\n")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def heat_map(seen: Map, width: int, *, colour: bool) -> Text:
    """A title, the panels, a key. No line is wider than `width`."""
    width = max(width, NARROWEST)
    layout = _layout(seen, width, colour)
    lines = [Text(in_its_own_direction(line), style="bold") for line in _wrapped(_heading(seen).split(" "), width, " ")]
    if not seen.rows or not seen.columns:
        told = _wrapped(["(nothing to draw:", "one side is empty)"], width, " ")
        return Text("\n").join([*lines, *map(Text, told)])
    for first in range(0, len(seen.columns), layout.per_panel):
        lines += [Text(), *_panel(seen, layout, range(first, min(first + layout.per_panel, len(seen.columns))))]
    return Text("\n").join([*lines, Text(), *(Text(line, style="dim") for line in _key(seen, layout))])


@dataclass(frozen=True)
class Layout:
    """The sizes of a map that is fitted into a width."""

    width: int
    label: int                            # cells of a row's label
    cell: int
    per_panel: int                        # columns side by side
    numbered: bool                        # columns have numbers, and names in the key
    percent: bool
    colour: bool


def _layout(seen: Map, width: int, colour: bool) -> Layout:
    label = min(max(map(cell_len, _names(seen.rows)), default=0), width // 3)
    marks = seen.signed + bool(seen.links)
    percent = colour and seen.counts_shares and label + 1 + len(seen.columns) * (3 + marks) <= width
    cell = (3 if percent else 2) + marks
    tallest = max((len(list(graphemes(name))) for name in _names(seen.columns)), default=0)
    return Layout(width, label, cell, max(1, (width - label - 1) // cell), tallest > TALLEST, percent, colour)


def _names(pieces: Sequence[str]) -> list[str]:
    return [visible(piece) for piece in pieces]


def _heading(seen: Map) -> str:
    parts = (seen.title, f"{seen.row_title} down, {seen.column_title} across", seen.about_view())
    return " · ".join(visible(part) for part in parts if part)


# --------------------------------------------------------------------------------------------- a panel


def _panel(seen: Map, layout: Layout, columns: range) -> Iterator[Text]:
    names = [str(column) if layout.numbered else visible(seen.columns[column]) for column in columns]
    for characters in upright(names):
        cells = "".join(padded(" " * (layout.cell - 2) + char, layout.cell) for char in characters)
        direction = LEFT_TO_RIGHT if ISOLATE in cells else ""
        yield Text(direction + " " * (layout.label + 1) + cells)
    shown, shades = seen.shown, seen.shades
    for row, name in enumerate(_names(seen.rows)):
        line = Text(padded(fitted(name, layout.label), layout.label, left=True) + " ")
        for column in columns:
            linked = (row, column) in seen.links
            line.append_text(_cell(float(shown[row, column]), float(shades[row, column]), linked, seen.signed, layout))
        yield line


def upright(names: Sequence[str]) -> Iterator[list[str]]:
    """Names written downwards, side by side, ending on the same line: a list of characters for each line."""
    clusters = [list(graphemes(name)) for name in names]
    height = max(map(len, clusters), default=0)
    for line in range(height):
        yield [name[line - height] if line >= height - len(name) else " " for name in clusters]


def _cell(amount: float, shade: float, linked: bool, signed: bool, layout: Layout) -> Text:
    if layout.percent:
        text = f"{round(100 * amount) or '':>3}".ljust(layout.cell)
    else:
        text = (" " if layout.colour else SHADES[round(4 * abs(shade))]) * layout.cell
    if signed:
        text = (MINUS if shade < -FAINT else " ") + text[1:]
    if linked:
        text = text[:-1] + DOT
    if not layout.colour:
        return Text(text)
    back = dark_colour(shade, signed)
    return Text(text, style=Style(color=ink_on(back), bgcolor=back))


# ---------------------------------------------------------------------------------------------- the key


def _key(seen: Map, layout: Layout) -> Iterator[str]:
    if layout.numbered:
        named = [f"{number} {in_its_own_direction(fitted(name, layout.width - 6))}"
                 for number, name in enumerate(_names(seen.columns))]
        yield from _wrapped(named, layout.width, " · ")
    parts = [seen.about_weights()]
    if layout.percent:
        parts.append("in percent")
    elif not layout.colour:
        steps = [f"{shade} {seen.top * ((level - 0.5) / 4) ** 2:.2g}" for level, shade in enumerate(SHADES) if level]
        parts.append("from " + "  ".join(steps))
    if seen.signed:
        parts.append(f"{MINUS} below zero")
    if seen.links:
        parts.append(f"{DOT} gold link")
    yield from _wrapped(" · ".join(parts).split(" "), layout.width, " ")


def _wrapped(parts: Sequence[str], width: int, between: str) -> Iterator[str]:
    """Parts on as few lines as hold them; one that is too long for a line is cut."""
    line = ""
    for part in (fitted(part, width) for part in parts):
        if line and cell_len(line + between + part) > width:
            yield line
            line = part
        else:
            line = f"{line}{between}{part}" if line else part
    if line:
        yield line
