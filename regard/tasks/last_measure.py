"""The last measurement of a run: the trained model on the test part, by which nothing was chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.metrics.filling import FillQuality

MOST_TOKENS = 2**18            # of a text, from its beginning: their mean is known to some 0.005 nats


@dataclass(frozen=True)
class LastFigures:
    """The figures of the test part: for programs, by names that begin with `test_`, and as a line for people."""

    values: dict[str, Any]                                   # numbers; an interval is a list of two
    line: str


@dataclass(frozen=True)
class LastMeasure:
    measure: Callable[[Any, Any], LastFigures]               # (trained, corpus with a test part)
    tokens: int | None = MOST_TOKENS                         # read at most; None: as many as a validation reads


def accuracy_interval(found: FillQuality, of: str) -> dict[str, Any]:
    """Return the interval of an accuracy in percent, and what was drawn again for it; nothing of too few."""
    between = found.interval
    return {} if between is None else {"test_accuracy_interval": [100 * each for each in between],
                                       "test_interval_over": of}


def say_number(measured: int, whole: int, unit: str) -> str:
    """`40,213 tokens`, or `the first 262,144 of 900,000 tokens`."""
    return f"{measured:,} {unit}" if measured >= whole else f"the first {measured:,} of {whole:,} {unit}"
