"""Charts of what was measured: the mean over seeds as a line or a bar, and what lies between the least and the largest.

Okabe and Ito's colours with dashes and marks of their own, so that lines can be told apart without colour. Up to five
lines have their spread as a band; of more, bands would hide one another, so each has thin whiskers, a little beside
those of the others. A line may also be one seed, with places of its own. Light background; SVG and PNG.
"""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np

from regard import storage

BLACK = "#000000"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", BLACK, "#8C6BB1", "#7A7A00")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (10, 3)))
MARKS = "osD^vPX*<"
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "|||", "---", "+++")
INK, SOFT = "#1d232a", "#56606b"
BANDS = 5                                  # lines, at most, whose spread is drawn as a band
LABELS = 14                                # places, at most, that are all written along the axis
TOGETHER = 62                              # letters, at most, of names that stand upright along it


@dataclass(frozen=True)
class Line:
    """One series of a chart: for each seed its y at the common x. `x` are numbers, or names for bars.

    `open_from`: points from this one on are drawn open, and joined by dots.
    """

    name: str                              # in the legend; "": not there
    x: Sequence[Any]
    y: Sequence[Sequence[float]]           # (seeds, x)
    style: int | None = None               # the same for what belongs together; None: in turn
    open_from: int | None = None
    band: Sequence[Sequence[float]] | None = None      # (2, x): low and high, in the place of the spread over seeds
    joined: bool = True                    # by a line; else marks alone, a dot for each seed


@dataclass(frozen=True)
class Chart:
    title: str
    x: str                                 # what is along the axis, with its unit
    y: str
    lines: Sequence[Line]
    kind: str = "lines"                    # lines · bars
    log_x: bool = False
    log_y: bool = False
    y_from: float | None = None            # where the axis begins and ends, if that matters
    y_to: float | None = None
    levels: Sequence[tuple[str, float]] = ()           # what to compare with, drawn across: chance, a theorem

    def _repr_svg_(self) -> str:
        """The picture that a notebook displays."""
        return draw(self).decode()


def draw(chart: Chart, kind: str = "svg") -> bytes:
    """The chart as SVG or PNG, the same bytes every time."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.family": ["DejaVu Sans"], "font.size": 12, "svg.hashsalt": "regard",
                                "svg.fonttype": "path", "axes.edgecolor": SOFT, "text.color": INK,
                                "axes.labelcolor": INK, "xtick.color": SOFT, "ytick.color": SOFT,
                                "hatch.linewidth": 0.8, "hatch.color": "white"}):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained", facecolor="white")
        axes = figure.add_subplot()
        if chart.log_y:
            axes.set_yscale("log")
        _bars(axes, chart) if chart.kind == "bars" else _lines(axes, chart)
        axes.set_title(fill(chart.title, 66), fontsize=13, loc="left")
        axes.set_xlabel(chart.x)
        axes.set_ylabel(fill(chart.y, 38))
        if chart.y_from is not None or chart.y_to is not None:
            axes.set_ylim(chart.y_from, chart.y_to)
        _levels(axes, chart)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e3e7ec", linewidth=0.8)
        axes.set_axisbelow(True)
        _legend(figure, axes, chart)
        held = io.BytesIO()
        figure.savefig(held, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return held.getvalue()


def hash_drawing(chart: Chart) -> str:
    """A hash of the numbers and of the code that draws them: a chart with this hash need not be drawn again."""
    return storage.digest((inspect.getsource(sys.modules[__name__]) + repr(chart)).encode())[:16]


# ------------------------------------------------------------------------------------------------- parts


def list_places(lines: Sequence[Line]) -> list[Any]:
    """Every place along the axis that some line has: numbers in order, names as they first come."""
    places = list(dict.fromkeys(x for line in lines for x in line.x))
    return places if any(isinstance(x, str) for x in places) else sorted(places)


def _spread(line: Line) -> tuple[Any, Any, Any]:
    y = np.asarray(line.y, np.float64)
    if line.band is not None:
        low, high = np.asarray(line.band, np.float64)
        return y.mean(0), low, high
    with np.errstate(invalid="ignore"):
        return y.mean(0), y.min(0), y.max(0)


def _drawn(line: Line) -> tuple[Any, Any, Any]:
    """Mean, least and largest, with nothing where the mean is no finite number."""
    mean, low, high = _spread(line)
    return tuple(np.where(np.isfinite(mean), each, np.nan) for each in (mean, low, high))       # type: ignore[return-value]


def _not_finite(axes: Any, x: Any, mean: Any, colour: str) -> None:
    """A mean that is no finite number is a cross at the top, lest it be taken for not measured."""
    if (lost := ~np.isfinite(mean)).any():
        axes.plot(x[lost], np.full(lost.sum(), 0.975), "x", color=colour, markersize=7, markeredgewidth=2,
                  transform=axes.get_xaxis_transform(), clip_on=False)
        axes.annotate("× no finite number", (0.99, 0.9), xycoords="axes fraction", ha="right", fontsize=10, color=SOFT)


def style_of(line: Line, place: int) -> tuple[str, Any, str, str]:
    """The colour, dashes, mark and hatch of a line; past the last colour they begin again, with other dashes."""
    style = place if line.style is None else line.style
    colour, turn = style % len(COLOURS), (style + style // len(COLOURS)) % len(COLOURS)
    return COLOURS[colour], DASHES[turn], MARKS[turn], HATCHES[turn]


def _lines(axes: Any, chart: Chart) -> None:
    places, many = list_places(chart.lines), len(chart.lines) > BANDS
    named = any(isinstance(x, str) for x in places)
    for at, line in enumerate(chart.lines):
        colour, dashes, mark, _ = style_of(line, at)
        mean, low, high = _drawn(line)
        x = np.array([places.index(each) for each in line.x] if named else line.x, np.float64)
        if not line.joined:
            axes.plot(np.tile(x, len(line.y)), np.ravel(line.y), mark, color=colour, label=line.name or "_nolegend_",
                      markersize=5.5, zorder=3)
            continue
        if many and len(line.y) > 1:
            x = _beside(x, places, chart.log_x, (at - (len(chart.lines) - 1) / 2) / len(chart.lines))
            axes.errorbar(x, mean, np.maximum(0, [mean - low, high - mean]), fmt="none", ecolor=colour,
                          elinewidth=1, capsize=1.5, alpha=0.6, zorder=1.5)
        elif len(x) == 1:                                        # a band of no width is not seen
            axes.errorbar(x, mean, np.maximum(0, [mean - low, high - mean]), fmt="none", ecolor=colour, elinewidth=2,
                          capsize=4)
        else:
            axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        drawn: Any = dict(color=colour, marker=mark, markersize=5.5 if len(line.x) <= 24 else 0,
                          linewidth=1.5 if many else 2)
        cut = len(x) if line.open_from is None else line.open_from
        axes.plot(x[:cut], mean[:cut], linestyle=dashes, label=line.name or "_nolegend_", **drawn)
        if cut < len(x):
            axes.plot(x[max(0, cut - 1):], mean[max(0, cut - 1):], linestyle=":", **drawn | {"marker": ""})
            axes.plot(x[cut:], mean[cut:], linestyle="", markerfacecolor="white", **drawn)
        _not_finite(axes, x, mean, colour)
    _ticks(axes, chart, places, named)


def _beside(x: Any, places: Sequence[Any], log_x: bool, share: float) -> Any:
    """A little to the left or right, by a share (-1/2 to 1/2) of a third of the way to the nearest other place."""
    at = np.arange(len(places)) if any(isinstance(each, str) for each in places) else np.asarray(places, np.float64)
    if len(at) < 2:
        return x
    return x * np.exp(share / 3 * np.diff(np.log(at)).min()) if log_x else x + share / 3 * np.diff(at).min()


def _ticks(axes: Any, chart: Chart, places: Sequence[Any], named: bool) -> None:
    from matplotlib.ticker import NullLocator

    if chart.log_x:
        axes.set_xscale("log", base=2 if len(places) <= LABELS else 10)
    if named:
        axes.set_xticks(range(len(places)), places)
    elif len(places) <= LABELS and (chart.log_x or _apart(places)):
        axes.set_xticks(places, [f"{x:g}" for x in places])
        axes.xaxis.set_minor_locator(NullLocator())


def _apart(places: Sequence[Any]) -> bool:
    """True where all of these places can be written along the axis: whole numbers that do not crowd one another."""
    steps = np.diff(np.asarray(places, np.float64))
    return all(float(x).is_integer() for x in places) and (not len(steps) or bool(steps.min() >= steps.sum() / LABELS))


def _bars(axes: Any, chart: Chart) -> None:
    """One group a name along the axis, one bar a line; whiskers from the least to the largest, a dot a seed.

    A bar has no foot on a logarithmic axis: there the mean is a mark.
    """
    count, names = len(chart.lines), list_places(chart.lines)
    width = 0.8 / count
    for at, line in enumerate(chart.lines):
        colour, _, mark, hatch = style_of(line, at)
        mean, low, high = _drawn(line)
        places = np.array([names.index(x) for x in line.x]) + (at - (count - 1) / 2) * width
        if chart.log_y:
            axes.plot(places, mean, mark, color=colour, markersize=9, label=line.name)
        else:
            axes.bar(places, mean, width * 0.92, color=colour, hatch=hatch if count > 1 else "", alpha=0.85,
                     linewidth=0, label=line.name)
        axes.errorbar(places, mean, np.maximum(0, [mean - low, high - mean]), fmt="none", ecolor=INK, capsize=2.5,
                      elinewidth=1)
        _not_finite(axes, places, mean, colour)
        for seed in line.y:
            axes.plot(places, seed, ".", color=INK, markersize=3.5)
    longest = max((len(str(name)) for name in names), default=0)
    turned: Any = {"rotation": 30, "ha": "right"} if longest * len(names) > TOGETHER else {}
    axes.set_xticks(range(len(names)), [str(name) for name in names], **turned)
    axes.set_xlim(-0.6, len(names) - 0.4)


def _levels(axes: Any, chart: Chart) -> None:
    """Draw levels to compare with, across the chart; a name has a white edge, to be read before anything."""
    from matplotlib.patheffects import withStroke

    for name, level in chart.levels:
        axes.axhline(level, color=INK, linewidth=1.1, linestyle=(0, (4, 3)), zorder=2.5)
        axes.annotate(name, (0.008, level), xycoords=("axes fraction", "data"), xytext=(0, 2), va="bottom",
                      textcoords="offset points", fontsize=10, color=INK, zorder=5,
                      path_effects=[withStroke(linewidth=2.5, foreground="white")])


def _legend(figure: Any, axes: Any, chart: Chart) -> None:
    """A few lines are named below, which leaves the chart its width; many stand beside it, one below another."""
    names = [line.name for line in chart.lines if line.name]
    if len(names) < 2:
        return
    many = len(names) > BANDS
    columns = 1 if many else max(1, min(len(names), 72 // (max(map(len, names)) + 8)))
    figure.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize=11, handlelength=2.8, ncols=columns,
                  loc="outside right center" if many else "outside lower center", columnspacing=1.4)


# ------------------------------------------------------------------------------------------------- in words


def describe_lines(chart: Chart) -> str:
    """The chart for those who do not see it: its title, and each line from its first place to its last."""
    told = [f"{chart.title}."]
    for line in (line for line in chart.lines if line.name):
        y, x = _spread(line)[0], line.x
        told.append(f"{line.name}: {y[0]:.4g} at {x[0]:g}, {y[-1]:.4g} at {x[-1]:g}.")
    return " ".join(told)


def rows_of(charts: Sequence[Chart]) -> tuple[list[str], list[list[Any]]]:
    """The first chart as a table: a row a line, a column a place, `mean (least–largest)` in each; empty where a line
    has no such place."""
    if not charts:
        return [], []
    places, rows = list_places(charts[0].lines), []
    for line in charts[0].lines:
        cells = {x: f"{mean:.3g}" if low == high else f"{mean:.2g} ({low:.2g}–{high:.2g})"
                 for x, mean, low, high in zip(line.x, *_spread(line), strict=True)}
        rows.append([line.name, *(cells.get(x, "") for x in places)])
    return ["", *(f"{x:g}" if isinstance(x, float) else str(x) for x in places)], rows
