"""The worked examples of the lectures, exact to the digit.

Each example is a small function that gives lines: what was worked out, what our own layers say, and what it has to be,
as an exact fraction wherever it is one. `regard lab run worked` prints them; the tests hold every line.

    A A B A, q = [0, 1], base 3      attend      1/6 1/6 1/2 1/6      1/6 1/6 1/2 1/6      equal

Each is a preset of the page, where its lines are read one by one (`worked-loss`). The rows of attention among them can
be stepped through besides (`regard/look/presets.py`): the same data, not a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from torch import Tensor

NAME, ABOUT = "worked", "The worked examples of the lectures, exact to the digit."
Number = int | float | Fraction
ROUNDING = 1e-12                           # what float64 may lose, relative to the largest number of a line


@dataclass(frozen=True)
class ExampleLine:
    """One thing worked out: by what of ours, what came out, and what it has to be."""

    what: str
    by: str                                # the function or layer that worked it out
    ours: tuple[Number, ...]
    expected: tuple[Number, ...]           # a Fraction wherever it is one
    row: int = 0                           # numbers in a row, of a matrix; 0: it is none

    @property
    def equal(self) -> bool:
        """Fractions are equal or not; numbers of a computer may differ by rounding."""
        if len(self.ours) != len(self.expected):
            return False
        if not any(isinstance(each, float) for each in (*self.ours, *self.expected)):
            return self.ours == self.expected
        allowed = ROUNDING * max([1.0, *(abs(float(each)) for each in self.expected)])
        return all(abs(float(a) - float(b)) <= allowed for a, b in zip(self.ours, self.expected, strict=True))

    def as_dict(self) -> dict[str, Any]:
        return {"what": self.what, "by": self.by, "ours": written(self.ours), "expected": written(self.expected),
                "row": self.row, "equal": self.equal}


@dataclass(frozen=True)
class Example:
    """A few lines that belong together; `presets` are the rows of attention on the page that can be stepped through."""

    name: str
    title: str
    source: str                            # the lecture it is from
    run: Callable[[], list[ExampleLine]]
    presets: tuple[str, ...] = field(default=())

    @property
    def about(self) -> str:
        return " ".join((self.run.__doc__ or "").split())

    @property
    def preset(self) -> str:
        """The name of the preset on the page that shows all its lines."""
        return f"worked-{self.name}"

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "title": self.title, "source": self.source, "about": self.about,
                "preset": self.preset, "presets": list(self.presets)}


def line(what: str, by: str, ours: Any, expected: Any) -> ExampleLine:
    """A line of numbers, however they are nested."""
    return ExampleLine(what, by, tuple(flat(ours)), tuple(flat(expected)), row_of(expected))


def row_of(numbers: Any) -> int:
    """The length of a matrix's rows; 0 for a vector or a number."""
    shape = np.shape(numbers)
    return shape[-1] if len(shape) > 1 else 0


def flat(numbers: Any) -> Iterable[Number]:
    if isinstance(numbers, Tensor):
        numbers = numbers.detach().double().cpu()
    if isinstance(numbers, (Tensor, np.ndarray)):
        numbers = numbers.tolist()
    if isinstance(numbers, (int, float, Fraction)):
        yield numbers
        return
    for each in numbers:
        yield from flat(each)


def written(numbers: Sequence[Number]) -> str:
    """As one would write it: 1/6 1/6 1/2 1/6. A number that is no small fraction has six digits."""
    return " ".join(map(_written, numbers))


def _written(number: Number) -> str:
    if isinstance(number, (int, Fraction)) or not math.isfinite(number):
        return str(number)
    near = Fraction(number).limit_denominator(1000)
    return str(near) if abs(near - Fraction(number)) < ROUNDING else f"{number:.6g}"


def examples() -> dict[str, Example]:
    """All worked examples by name, in the order of the lectures."""
    from regard.lab import worked_attention, worked_equations, worked_recurrent

    every = [*worked_attention.EXAMPLES, *worked_recurrent.EXAMPLES, *worked_equations.EXAMPLES]
    return {each.name: each for each in every}


# ----------------------------------------------------------------------------------------------- to be shown


def as_dicts() -> list[dict[str, Any]]:
    """Every example with its lines, as JSON."""
    return [{**each.as_dict(), "lines": [one.as_dict() for one in each.run()]} for each in examples().values()]


def as_text(examples: Sequence[dict[str, Any]]) -> str:
    """Example by example: whether it is equal, what, by what of ours, and the two sides where they fit on a line."""
    lines = []
    for each in examples:
        lines.append(f"\n{each['title']} ({each['source']})\n  {each['about']}")
        for one in each["lines"]:
            sides = short(one["ours"]), "=" if one["equal"] else "NOT EQUAL", short(one["expected"])
            lines.append(f"    {one['what']}   [{one['by']}]\n      {'  '.join(sides)}")
    right, every = counted(examples)
    return "\n".join([*lines, f"\n{right} of {every} lines come out, to the digit"])


def short(text: str, width: int = 64) -> str:
    return text if len(text) <= width else f"{text[:width].rsplit(' ', 1)[0]} …"


def counted(found: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """The number of lines that are equal, and of all lines."""
    equal = [one["equal"] for each in found for one in each["lines"]]
    return sum(equal), len(equal)


def explained() -> str:
    rows = [f"{each.name:<15} {each.title} ({each.source}); "
            f"on the page: {', '.join((each.preset, *each.presets))}" for each in examples().values()]
    return "\n".join([(__doc__ or "").strip(), "", *rows])
