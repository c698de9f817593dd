"""Curves of learning in a report: what training and validation said, against tokens read and against time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from regard.compare.plan import Plan
from regard.compare.subject import Record
from regard.report.curves import Curve, colour_of, plot
from regard.report.page import figure

STRETCHES = 40               # points of a training curve
SIDES = (("Against tokens read", 0, "tokens"), ("Against time", 1, "seconds of training"))


def styles(plan: Plan) -> dict[str, int]:
    """A colour for each family; what is counted is grey, as the line to cross."""
    trained = [entry.family for entry in plan.entries if not entry.counted]
    return {entry.family: -1 for entry in plan.entries} | {family: n for n, family in enumerate(trained)}


def coloured(plan: Plan, family: str) -> str:
    return colour_of(styles(plan)[family])


def smoothed(points: Sequence[Sequence[float]], column: int, scale: float) -> list[tuple[float, float]]:
    """Training losses as [tokens, seconds, loss], averaged to a few dozen points; the wild first ones are left out."""
    size = max(1, len(points) // STRETCHES)
    parts = [points[i:i + size] for i in range(0, len(points), size)]
    means = [(sum(p[column] for p in part) / len(part), sum(p[2] for p in part) / len(part) * scale)
             for part in parts]
    return [point for point in means[len(means) // 20:] if point[0] > 0]


def seeds_over_time(
    plan: Plan, done: Sequence[Record], points: Callable[[Record], Sequence[Sequence[float]]], y: str, *,
    of: str = "", scale: float = 1.0, level: tuple[str, float] | None = None,
) -> Iterator[str]:
    """What each seed's validations said, against tokens and against time; `points` are [tokens, seconds, value]."""
    for heading, column, unit in SIDES:
        heading, lines = f"{of} {heading.lower()}" if of else heading, []
        for family, style in styles(plan).items():
            own = [r for r in done if r["family"] == family and r["seed"] is not None]
            for place, record in enumerate(own):
                there = [(point[column], point[2] * scale) for point in points(record) if point[column] > 0]
                lines.append(Curve(family, there, style, labelled=place == 0, dotted=False))
        drawn = plot(lines, title=heading, x=unit, y=y, log_x=True, level=level)
        yield figure(heading, "Each line is one seed, from its first validation to its last.", drawn)


def while_training(
    plan: Plan, done: Sequence[Record], y: str, *, scale: float = 1.0, level: tuple[str, float] | None = None
) -> Iterator[str]:
    for heading, column, unit in SIDES:
        lines = [Curve(r["family"], smoothed(r["curve"]["train"], column, scale), styles(plan)[r["family"]],
                      dotted=False) for r in done if r["seed"] == 0]
        drawn = plot(lines, title=f"{heading}, while training", x=unit, y=y, log_x=True, level=level)
        yield figure(f"{heading}, while training", "What each model was being trained on, averaged over stretches of "
                     "steps; the first seed. With dropout it is above the held-out loss, learned by heart below it.",
                     drawn)
