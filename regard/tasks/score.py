"""Scoring: how a trained model is measured on data, behind `regard score`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

Options = dict[str, Any]                     # of the command, by name
Say = Callable[[str], None]
Row = tuple[str, str]                        # a name, and what is shown beside it

# What means something for every task whose models write from a source.
OF_SOURCES = ("on_bad_image", "first", "beam", "length_penalty", "batch", "gold", "words", "heads", "by_length",
              "against")


@dataclass(frozen=True)
class Outcome:
    """The result of a measurement: values for programs and rows for people, or values of each line or token."""

    values: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    each: Iterable[tuple[dict[str, Any], str]] | None = None         # the values, and the line that shows them


@dataclass(frozen=True)
class Scoring:
    measure: Callable[[Any, tuple[str, ...], Options, Say], Outcome]         # (trained, files, options, say)
    options: tuple[str, ...]                 # those of `regard score` that mean something here, beside the common ones


def warning_rows(values: dict[str, Any]) -> list[Row]:
    """The row that says why the loss means less than it seems to, where it does."""
    return [("warning", values["warning"])] if "warning" in values else []
