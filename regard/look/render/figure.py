"""A map as a picture, PNG or SVG: the source along the top, the target down the side, a scale beside them.

Figures are built by hand, so that nobody's plotting state is touched. The same map gives the same bytes: no dates, no
random names. In an SVG text stays text, and the reader's own fonts draw what ours have no letters for.
"""

from __future__ import annotations

import io
import logging
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.cells import cell_len

from regard.errors import SettingError
from regard.look.render.colours import ABOVE, BELOW, LINK, MOST
from regard.look.render.labels import fitted, visible
from regard.look.render.maps import Map

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_MAPS = 12                            # in one picture
CELL, LARGEST = 0.34, 15.0                # inches: of a cell, and of a side of the grid
LONGEST_LABEL = 24                        # characters
READABLE = 0.11                           # inches that a line of labels takes at least; closer ones are thinned
VECTOR_CELLS = 64 * 64                    # more become one image inside an SVG
POINTS = 72
NUMBERED = 16                             # columns and rows up to which weights are printed in their cells
FALLBACKS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "PingFang SC", "Hiragino Sans", "Yu Gothic",
             "Microsoft YaHei", "Malgun Gothic", "WenQuanYi Zen Hei", "IPAGothic", "Arial Unicode MS",
             "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji",
             "Segoe UI Symbol")
SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "regard", "path.sketch": None, "axes.unicode_minus": True,
            "text.usetex": False}


def picture(maps: Sequence[Map], form: str) -> bytes:
    """The bytes of a "png" or "svg" of one or a few maps, one below the other."""
    try:
        import matplotlib
        import matplotlib.style
    except ImportError as error:
        raise SettingError("a picture needs matplotlib: pip install matplotlib, or write .html or .txt") from error
    if len(maps) > MOST_MAPS:
        raise SettingError(f"{len(maps)} maps do not fit in one picture, which holds {MOST_MAPS}: write them to .html")
    settings: Any = {**SETTINGS, "font.family": _families()}
    with matplotlib.style.context("default"), matplotlib.rc_context(settings), quiet():
        figure = draw(maps)
        data = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None, "Creator": "Regard"} if form == "svg" else {"Software": "Regard"}
        figure.savefig(data, format=form, dpi=160, bbox_inches="tight", pad_inches=0.15, metadata=metadata)
    return data.getvalue()


def draw(maps: Sequence[Map]) -> Figure:
    """The figure, for those who go on with it in matplotlib."""
    from matplotlib.figure import Figure

    sizes = [_size(seen) for seen in maps]
    heights = [height for _, height in sizes]
    figure = Figure(figsize=(max(width for width, _ in sizes), sum(heights)), layout="constrained")
    every = figure.subplots(len(maps), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, seen in zip(every, maps, strict=True):
        _draw_map(axes, seen)
    return figure


# ------------------------------------------------------------------------------------------------ a map


def _draw_map(axes: Axes, seen: Map) -> None:
    title = "\n".join(visible(part) for part in (seen.title, seen.about_view()) if part)
    if title:
        axes.set_title(title, fontsize=11, pad=10, parse_math=False, wrap=True)
    if not seen.rows or not seen.columns:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "(nothing to draw: one side is empty)", ha="center", transform=axes.transAxes)
        return
    edge = "#d9dee4" if _cell(seen) > READABLE else "none"
    mesh = axes.pcolormesh(seen.shown, cmap=_scale(seen.signed), norm=_norm(seen), edgecolors=edge, linewidth=0.4,
                           rasterized=seen.shown.size > VECTOR_CELLS)
    axes.set(aspect="equal", xlim=(0, len(seen.columns)), ylim=(len(seen.rows), 0))
    axes.xaxis.set_ticks_position("top")
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(visible(seen.column_title), parse_math=False)
    axes.set_ylabel(visible(seen.row_title), parse_math=False)
    axes.tick_params(length=0)
    for side, pieces in (("x", seen.columns), ("y", seen.rows)):
        _label(axes, side, pieces, _cell(seen))
    _outline(axes, seen)
    _number(axes, seen)
    _bar(axes, seen, mesh)


def _size(seen: Map) -> tuple[float, float]:
    """About what the grid, its labels and its scale take, in inches; the picture is cut to what it took."""
    cell = _cell(seen)
    label = [0.09 * max((min(cell_len(visible(piece)), LONGEST_LABEL) for piece in side), default=0)
             for side in (seen.rows, seen.columns)]
    return max(4.0, cell * len(seen.columns) + label[0] + 1.6), max(2.2, cell * len(seen.rows) + label[1] + 1.1)


def _cell(seen: Map) -> float:
    return min(CELL, LARGEST / max(1, len(seen.rows), len(seen.columns)))


def _label(axes: Axes, side: str, pieces: Sequence[str], cell: float) -> None:
    every = max(1, math.ceil(READABLE / cell))
    places = range(0, len(pieces), every)
    names = [fitted(visible(pieces[place]), LONGEST_LABEL) for place in places]
    turned: Any = {"rotation": 90} if side == "x" and max(map(cell_len, names)) > 2 else {}
    axis = axes.xaxis if side == "x" else axes.yaxis
    size = min(10.0, 0.72 * POINTS * max(cell, READABLE))
    axis.set_ticks([place + 0.5 for place in places], names, fontsize=size, parse_math=False, **turned)


def _outline(axes: Axes, seen: Map) -> None:
    from matplotlib.patches import Rectangle

    colour = LINK["signed" if seen.signed else "plain"]
    for row, column in sorted(seen.links):
        axes.add_patch(Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, fill=False, edgecolor=colour, linewidth=1.6))


def _number(axes: Axes, seen: Map) -> None:
    """Weights of 5% and more, in hundredths, where the grid is small enough to be read cell by cell."""
    if not seen.counts_shares or max(seen.shown.shape) > NUMBERED:
        return
    shown, shades = seen.shown, seen.shades
    for row, column in np.argwhere(shown >= 0.05):
        ink = "white" if shades[row, column] > 0.55 else "#1d232a"
        axes.text(column + 0.5, row + 0.52, f"{100 * shown[row, column]:.0f}", ha="center", va="center", fontsize=7,
                  color=ink)


def _bar(axes: Axes, seen: Map, mesh: Any) -> None:
    assert axes.figure is not None
    bar = axes.figure.colorbar(mesh, ax=axes, fraction=0.05, pad=0.03, aspect=18, shrink=min(1.0, 3.2 / _size(seen)[1]))
    ticks = np.array([0.0, 0.01, 0.1, 0.25, 0.5, 1.0]) * seen.top
    ticks = np.concatenate([-ticks[:1:-1], ticks[[0]], ticks[2:]]) if seen.signed else ticks
    bar.set_ticks(list(ticks), labels=[f"{tick:.3g}" for tick in ticks], fontsize=8)
    bar.set_label(visible(seen.kind), fontsize=8, parse_math=False)
    bar.outline.set_linewidth(0.4)


# --------------------------------------------------------------------------------------- colour, letters


def _scale(signed: bool) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    stops = (*BELOW["light"][:0:-1], *ABOVE["light"]) if signed else MOST["light"]
    return LinearSegmentedColormap.from_list("regard", stops)


def _norm(seen: Map) -> Any:
    """Square roots, on both sides of zero where there is a sign."""
    from matplotlib.colors import FuncNorm, PowerNorm

    if not seen.signed:
        return PowerNorm(0.5, 0.0, seen.top)
    bend = (lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * np.square(x))
    return FuncNorm(bend, -seen.top, seen.top)


def _families() -> list[str]:
    """Our font first, then those that are here for other scripts: one that is missing would be complained of."""
    from matplotlib.font_manager import fontManager

    here = set(fontManager.get_font_names())
    return ["DejaVu Sans", *(name for name in FALLBACKS if name in here)]


@contextmanager
def quiet() -> Iterator[None]:
    """A letter that no font here has is drawn as a box: no need to be told of it many times over."""
    fonts = logging.getLogger("matplotlib.font_manager")
    before = fonts.level
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*[Gg]lyph.*")
        warnings.filterwarnings("ignore", message=r"(?s).*Matplotlib currently does not support")
        fonts.setLevel(logging.ERROR)
        try:
            yield
        finally:
            fonts.setLevel(before)
