"""Charts of the lab: the mean over seeds as a line or a bar, and what lies between the least and the largest.

Okabe and Ito's colours with dashes and marks of their own, so that lines can be told apart without colour. Light
background; SVG and PNG.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.lab.experiment import Chart, Line

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6BB1", "#7A7A00")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (10, 3)))
MARKS = "osD^vPX*<"
INK, SOFT = "#1d232a", "#56606b"


def draw(chart: Chart, kind: str = "svg") -> bytes:
    """The chart as SVG or PNG, the same bytes every time."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.family": ["DejaVu Sans"], "font.size": 11, "svg.hashsalt": "regard",
                                "svg.fonttype": "path", "axes.edgecolor": SOFT, "text.color": INK,
                                "axes.labelcolor": INK, "xtick.color": SOFT, "ytick.color": SOFT}):
        figure = Figure(figsize=(7.2, 4.2), layout="constrained", facecolor="white")
        axes = figure.add_subplot()
        _bars(axes, chart) if chart.kind == "bars" else _lines(axes, chart)
        for name, level in chart.levels:
            axes.axhline(level, color=SOFT, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
            axes.annotate(name, (0.01, level), xycoords=("axes fraction", "data"), va="bottom", fontsize=9, color=SOFT)
        axes.set_title(chart.title, fontsize=12, loc="left")
        axes.set_xlabel(chart.x)
        axes.set_ylabel(chart.y)
        if chart.log_y:
            axes.set_yscale("log")
        if chart.y_from is not None or chart.y_to is not None:
            axes.set_ylim(chart.y_from, chart.y_to)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e3e7ec", linewidth=0.8)
        axes.set_axisbelow(True)
        held = io.BytesIO()
        figure.savefig(held, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return held.getvalue()


def _spread(line: Line) -> tuple[Any, Any, Any]:
    y = np.asarray(line.y, np.float64)
    return y.mean(0), y.min(0), y.max(0)


def _style(line: Line, at: int) -> int:
    return (at if line.style is None else line.style) % len(COLOURS)


def _lines(axes: Any, chart: Chart) -> None:
    for at, line in enumerate(chart.lines):
        style = _style(line, at)
        mean, low, high = _spread(line)
        axes.fill_between(line.x, low, high, color=COLOURS[style], alpha=0.18, linewidth=0)
        axes.plot(line.x, mean, color=COLOURS[style], linestyle=DASHES[style], marker=MARKS[style],
                  markersize=4.5 if len(line.x) <= 24 else 0, linewidth=1.8, label=line.name)
    if chart.log_x:
        axes.set_xscale("log", base=2)
        ticks = sorted({x for line in chart.lines for x in line.x})
        if len(ticks) <= 14:
            axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
            axes.minorticks_off()
    if len(chart.lines) > 1:
        axes.legend(frameon=False, fontsize=9.5, loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3.2)


def _bars(axes: Any, chart: Chart) -> None:
    """One group a name along the axis, one bar a line; whiskers from the least to the largest, a dot a seed."""
    count, names = len(chart.lines), list(chart.lines[0].x)
    width = 0.8 / count
    for at, line in enumerate(chart.lines):
        style = _style(line, at)
        mean, low, high = _spread(line)
        places = np.arange(len(names)) + (at - (count - 1) / 2) * width
        axes.bar(places, mean, width * 0.92, color=COLOURS[style], alpha=0.85, label=line.name,
                 yerr=np.maximum(0, [mean - low, high - mean]), ecolor=INK, capsize=2.5, error_kw={"linewidth": 1})
        for seed in line.y:
            axes.plot(places, seed, ".", color=INK, markersize=2.5)
    longest = max((len(str(name)) for name in names), default=0)
    turned: Any = {"rotation": 30, "ha": "right"} if longest * len(names) > 60 else {}
    axes.set_xticks(range(len(names)), [str(name) for name in names], **turned)
    if count > 1:
        axes.legend(frameon=False, fontsize=9.5, loc="center left", bbox_to_anchor=(1.0, 0.5))


def rows_of(charts: Sequence[Chart]) -> tuple[list[str], list[list[Any]]]:
    """The first chart as a table: a row a line, a column a place, `mean (least–largest)` in each."""
    if not charts:
        return [], []
    chart = charts[0]
    columns = ["", *(f"{x:g}" if isinstance(x, float) else str(x) for x in chart.lines[0].x)]
    rows = []
    for line in chart.lines:
        cells = [f"{mean:.3g}" if low == high else f"{mean:.2g} ({low:.2g}–{high:.2g})"
                 for mean, low, high in zip(*_spread(line), strict=True)]
        rows.append([line.name, *cells])
    return columns, rows
