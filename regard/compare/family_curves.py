"""Curves of a report, a colour a family: learning against tokens and time, cost against length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from regard.compare.plan import ComparisonPlan, Record
from regard.report.curves import Curve, colour_of, plot
from regard.report.page import figure

STRETCHES = 40               # points of a training curve
AGAINST = (("Against tokens read", 0, "tokens"), ("Against time", 1, "seconds of training"))


def styles(plan: ComparisonPlan) -> dict[str, int]:
    """A colour for each family; what is counted is grey, as the line to cross."""
    trained = [entry.family for entry in plan.entries if not entry.counted]
    return {entry.family: -1 for entry in plan.entries} | {family: n for n, family in enumerate(trained)}


def family_colour(plan: ComparisonPlan, family: str) -> str:
    return colour_of(styles(plan)[family])


def smooth(points: Sequence[Sequence[float]], column: int, scale: float) -> list[tuple[float, float]]:
    """Training losses as [tokens, seconds, loss], averaged to a few dozen points; the wild first ones are left out."""
    size = max(1, len(points) // STRETCHES)
    parts = [points[i:i + size] for i in range(0, len(points), size)]
    means = [(sum(p[column] for p in part) / len(part), sum(p[2] for p in part) / len(part) * scale)
             for part in parts]
    return [point for point in means[len(means) // 20:] if point[0] > 0]


def plot_validations(
    plan: ComparisonPlan, done: Sequence[Record], curve: str, y: str, *,
    of: str = "", scale: float = 1.0, level: tuple[str, float] | None = None,
) -> Iterator[str]:
    """A curve of each seed's validations, against tokens and against time. Its points are [tokens, seconds, value]."""
    for heading, column, unit in AGAINST:
        heading, lines = f"{of} {heading.lower()}" if of else heading, []
        for family, style in styles(plan).items():
            own = [r for r in done if r["family"] == family and r["seed"] is not None]
            for place, record in enumerate(own):
                points = record["curve"].get(curve, [])
                there = [(point[column], point[2] * scale) for point in points if point[column] > 0]
                lines.append(Curve(family, there, style, labelled=place == 0, dotted=False))
        drawn = plot(lines, title=heading, x=unit, y=y, log_x=True, level=level)
        yield figure(heading, "Each line is one seed, from its first validation to its last.", drawn)


def plot_training(
    plan: ComparisonPlan, done: Sequence[Record], y: str, scale: float = 1.0, level: tuple[str, float] | None = None
) -> Iterator[str]:
    """The training loss of the first seed of each family, against tokens and against time."""
    for heading, column, unit in AGAINST:
        lines = [Curve(r["family"], smooth(r["curve"]["train"], column, scale), styles(plan)[r["family"]],
                      dotted=False) for r in done if r["seed"] == 0]
        drawn = plot(lines, title=f"{heading}, while training", x=unit, y=y, log_x=True, level=level)
        yield figure(f"{heading}, while training", "What each model was being trained on, averaged over stretches of "
                     "steps; the first seed. With dropout it is above the held-out loss, learned by heart below it.",
                     drawn)


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
        curves.append(Curve(family, own, styles(plan)[family], open_from=beyond))
    return figure(heading, caption, plot(curves, title=heading, x=x, y=y, log_x=True, log_y=True))
