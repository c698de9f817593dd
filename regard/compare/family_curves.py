"""Curves of a report, a colour a family: learning against tokens and time, cost against length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from regard.compare.plan import ComparisonPlan, Record
from regard.report.charts import BLACK, COLOURS, Chart, Line, describe_lines, draw
from regard.report.page import figure

STRETCHES = 40               # points of a training curve
AGAINST = (("Against tokens read", 0, "tokens"), ("Against time", 1, "seconds of training"))
Levels = Sequence[tuple[str, float]]


def styles(plan: ComparisonPlan) -> dict[str, int]:
    """A style for each family; what is counted is black, as the line to cross."""
    trained = [entry.family for entry in plan.entries if not entry.counted]
    coloured = [n for n in range(2 * len(trained) + 1) if COLOURS[n % len(COLOURS)] != BLACK]
    return {entry.family: COLOURS.index(BLACK) for entry in plan.entries} | dict(zip(trained, coloured, strict=False))


def family_colour(plan: ComparisonPlan, family: str) -> str:
    return COLOURS[styles(plan)[family] % len(COLOURS)]


def family_line(
    plan: ComparisonPlan, family: str, points: Sequence[tuple[float, float]], *, named: bool = True,
    open_from: int | None = None,
) -> Line:
    """One seed of a family, or its mean: points (x, y)."""
    return Line(family if named else "", [x for x, _ in points], [[y for _, y in points]], styles(plan)[family],
                open_from)


def draw_figure(chart: Chart, caption: str) -> str:
    """The chart in a figure of the page; lines without points are left out."""
    chart = replace(chart, lines=[line for line in chart.lines if len(line.x)])
    if not chart.lines:
        return "<p>There is nothing to plot yet.</p>"
    return figure(draw(chart), describe_lines(chart), caption)


def smooth(points: Sequence[Sequence[float]], column: int, scale: float) -> list[tuple[float, float]]:
    """Training losses as [tokens, seconds, loss], averaged to a few dozen points; the wild first ones are left out."""
    size = max(1, len(points) // STRETCHES)
    parts = [points[i:i + size] for i in range(0, len(points), size)]
    means = [(sum(p[column] for p in part) / len(part), sum(p[2] for p in part) / len(part) * scale)
             for part in parts]
    return [point for point in means[len(means) // 20:] if point[0] > 0]


def plot_validations(
    plan: ComparisonPlan, done: Sequence[Record], curve: str, y: str, *, of: str = "", scale: float = 1.0,
    levels: Levels = (),
) -> Iterator[str]:
    """A curve of each seed's validations, against tokens and against time. Its points are [tokens, seconds, value]."""
    for heading, column, unit in AGAINST:
        heading, lines = f"{of} {heading.lower()}" if of else heading, []
        for entry in plan.entries:
            own = [r for r in done if r["family"] == entry.family and r["seed"] is not None]
            for place, record in enumerate(own):
                points = record["curve"].get(curve, [])
                there = [(point[column], point[2] * scale) for point in points if point[column] > 0]
                lines.append(family_line(plan, entry.family, there, named=place == 0))
        yield draw_figure(Chart(heading, unit, y, lines, log_x=True, levels=levels),
                          "Each line is one seed, from its first validation to its last.")


def plot_training(
    plan: ComparisonPlan, done: Sequence[Record], y: str, scale: float = 1.0, levels: Levels = ()
) -> Iterator[str]:
    """The training loss of the first seed of each family, against tokens and against time."""
    for heading, column, unit in AGAINST:
        lines = [family_line(plan, r["family"], smooth(r["curve"]["train"], column, scale))
                 for r in done if r["seed"] == 0]
        yield draw_figure(
            Chart(f"{heading}, while training", unit, y, lines, log_x=True, levels=levels),
            "What each model was being trained on, averaged over stretches of steps; the first seed. With dropout it "
            "is above the held-out loss, learned by heart below it.")


def plot_cost(
    plan: ComparisonPlan, done: Sequence[Record], heading: str, caption: str, x: str, y: str,
    points: Callable[[Record], Sequence[tuple[float, float]]],
) -> str:
    """A cost against length, of the trial of each family that was measured in full. Points beyond the model's context
    are drawn open. For a family that is counted, the order that predicts best stands."""
    best: dict[str, Record] = {}
    for record in done:
        before = best.get(record["family"])
        if "cost" in record and (before is None or (before["seed"] is None and record["loss"] < before["loss"])):
            best[record["family"]] = record
    curves = []
    for family, record in best.items():
        own, limit = points(record), record["context"]
        beyond = next((n for n, (length, _) in enumerate(own) if limit is not None and length > limit), None)
        curves.append(family_line(plan, family, own, open_from=beyond))
    return draw_figure(Chart(heading, x, y, curves, log_x=True, log_y=True), caption)
