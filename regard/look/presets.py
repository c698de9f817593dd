"""Worked examples of the lectures, as attention rows to step through: small enough to do by hand, with exact fractions.

    PRESETS["aaba"].sheet(column=2)                # A A B A, which B is found in: 1/6 1/6 1/2 1/6

A preset is data, in presets.toml: a query, keys and values, or weights that are given. The same sheet of arithmetic is
made of it as of a model's own numbers, and shown in the same view; the base of the powers may be e, or 3, with which it
comes out even.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from regard.config import one_of
from regard.errors import SettingError
from regard.look.arithmetic import Arithmetic
from regard.look.arithmetic_attention import softmax_steps, value_steps
from regard.look.arithmetic_sheet import Sheet

Row = tuple[int | str, ...]               # whole numbers, or fractions and decimals as they are written
BASES = ("e", "3")
TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@dataclass(frozen=True)
class Preset:
    """One row of attention: a query over keys, or given weights; and the values that are read."""

    name: str
    title: str
    about: str
    columns: tuple[str, ...]
    values: tuple[Row, ...]
    query: Row = ()
    keys: tuple[Row, ...] = ()            # empty: the values are the keys
    weights: Row = ()                     # given, where there is no query
    hidden: int = 0                       # so many of the last columns are masked
    base: str = "e"

    def sheet(self, column: int = 0, base: str | None = None) -> Sheet:
        base = base or self.base
        one_of("base", base, BASES)
        if not 0 <= column < len(self.columns):
            raise SettingError(f"column = {column}: there are {len(self.columns)}, counted from 0")
        sheet = Sheet(texts=("softmax", "product", "preset") if self.query else ("preset", "softmax"))
        if self.query:
            self._scored(sheet, column, base)
        else:
            sheet.put("alpha", np.array([float(Fraction(each)) for each in self.weights]))
            sheet.work("alpha here", "pick", "alpha", how={"index": column})
            sheet.step("weights")
        value_steps(sheet, numbers(self.values), column)
        return with_fractions(sheet, self, base, column)

    def arithmetic(self, column: int = 0, base: str | None = None) -> Arithmetic:
        """The sheet for the selected column, as the arithmetic of a model's cell is shown."""
        return Arithmetic.of("attention", self.title, self.sheet(column, base), {"columns": list(self.columns)}, column)

    def _scored(self, sheet: Sheet, column: int, base: str) -> None:
        keys = numbers(self.keys or self.values)
        sheet.put("q", numbers(self.query))
        sheet.put("keys", keys, keys="the keys" if self.keys else "the keys are the embeddings themselves")
        sheet.work("k", "pick", "keys", how={"index": column})
        sheet.step("keys", about=self.about)
        sheet.work("products", "times", "q", "k")
        sheet.work("sum", "sum", "products")
        sheet.work("raw", "dot", "keys", "q")
        sheet.step("products")
        sheet.put("allowed", np.array([1.0] * (len(keys) - self.hidden) + [0.0] * self.hidden))
        sheet.work("e", "mask", "raw", "allowed")
        sheet.step("mask", hidden=f"{self.hidden} of {len(keys)} columns are hidden." if self.hidden
                   else "Nothing is hidden here, and nothing is scaled.")
        softmax_steps(sheet, "e", column=column, base=None if base == "e" else 3)

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "title": self.title, "about": self.about, "columns": list(self.columns),
                "base": self.base, "bases": list(BASES) if self.query else []}


def numbers(rows: Sequence[Any]) -> np.ndarray:
    return np.array([[float(Fraction(x)) for x in row] if isinstance(row, tuple) else float(Fraction(row))
                     for row in rows], np.float64)


# ---------------------------------------------------------------------------------------- exact fractions


def exact(preset: Preset, base: str, column: int) -> dict[str, list[Fraction]]:
    """Powers, weights and output as fractions, where they are: with base 3, or weights that are given."""
    values, exactly = [[Fraction(x) for x in row] for row in preset.values], {}
    if preset.query:
        if base == "e":
            return {}
        query, keys = [Fraction(x) for x in preset.query], preset.keys or preset.values
        scores = [int(sum(q * Fraction(k) for q, k in zip(query, key, strict=True))) for key in keys]
        seen = scores[:len(keys) - preset.hidden]
        powers = [Fraction(3) ** (score - max(seen)) for score in seen] + [Fraction(0)] * preset.hidden
        exactly = {"powers": powers, "total": [sum(powers, Fraction(0))]}
        alpha = [power / sum(powers) for power in powers]
    else:
        alpha = [Fraction(x) for x in preset.weights]
    parts = [[weight * x for x in row] for weight, row in zip(alpha, values, strict=True)]
    output = [sum(channel, Fraction(0)) for channel in zip(*parts, strict=True)]
    return exactly | {"alpha": alpha, "alpha here": [alpha[column]], "part": parts[column], "output": output}


def with_fractions(sheet: Sheet, preset: Preset, base: str, column: int) -> Sheet:
    """The sheet with what is known exactly beside what was worked out; and checked by it."""
    for name, fractions in exact(preset, base, column).items():
        old = sheet.quantities[name]
        values = np.array([float(each) for each in fractions]).reshape(old.values.shape)
        sheet.quantities[name] = replace(old, values=values, checked=bool(old.op), exact=tuple(map(str, fractions)))
    return sheet


# ------------------------------------------------------------------------------------------------ the data


def as_tuples(value: Any) -> Any:
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


X, W_Q, W_K, W_V, P = (as_tuples(TABLES["matrices"][name]) for name in ("X", "W_Q", "W_K", "W_V", "P"))
PRESETS = {own["name"]: Preset(**{name: as_tuples(value) for name, value in {**group, **own}.items()
                                  if name != "preset"})
           for group in TABLES["group"] for own in group["preset"]}
