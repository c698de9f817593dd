"""Worked examples of the lectures, as attention rows to step through: small enough to do by hand, with exact fractions.

    PRESETS["aaba"].sheet(column=2)                # A A B A, which B is found in: 1/6 1/6 1/2 1/6

A preset is data: a query, keys and values,
or weights that are given. The same sheet of arithmetic is made of it as of a
model's own numbers, and shown in the same view; the base of the powers may be e, or 3, with which it comes out even.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from regard.config import one_of
from regard.errors import SettingError
from regard.look.arithmetic import Arithmetic
from regard.look.arithmetic_attention import softmax_steps, value_steps
from regard.look.arithmetic_sheet import Sheet

Row = tuple[int | str, ...]               # whole numbers, or fractions and decimals as they are written
Matrix = tuple[tuple[int, ...], ...]
BASES = ("e", "3")
A, B = (1, 0), (0, 1)


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
        sheet = Sheet()
        if self.query:
            self._scored(sheet, column, base)
        else:
            given = np.array([float(Fraction(each)) for each in self.weights])
            sheet.put("alpha", given, symbol="α", about="the weights, as they are given", over="columns")
            sheet.work("alpha here", "pick", "alpha", how={"index": column}, symbol="α here",
                       about="of the selected column")
            sheet.step("Weights", "α", "The weights of a row sum to 1.", "alpha", "alpha here")
        value_steps(sheet, numbers(self.values), column)
        return with_fractions(sheet, self, base, column)

    def arithmetic(self, column: int = 0, base: str | None = None) -> Arithmetic:
        """The sheet for the selected column, as the arithmetic of a model's cell is shown."""
        return Arithmetic.of("attention", self.title, self.sheet(column, base), {"columns": list(self.columns)}, column)

    def _scored(self, sheet: Sheet, column: int, base: str) -> None:
        keys = numbers(self.keys or self.values)
        sheet.put("q", numbers(self.query), symbol="q", about="the query: what is looked for", over="channels")
        sheet.put("keys", keys, symbol="k", about="the keys" if self.keys else "the keys are the embeddings themselves",
                  over="columns")
        sheet.work("k", "pick", "keys", how={"index": column}, symbol="k", about="the key of the selected column",
                   over="channels")
        sheet.step("Query and keys", "q,  k", self.about, "q", "k", "keys")
        sheet.work("products", "times", "q", "k", symbol="qᵢ kᵢ", about="channel by channel", over="channels")
        sheet.work("sum", "sum", "products", symbol="Σ qᵢ kᵢ", about="their sum, for the selected column")
        sheet.work("raw", "dot", "keys", "q", symbol="q · k", about="the same for every column", over="columns")
        sheet.step("Products and their sum", "q · k = Σᵢ qᵢ kᵢ",
                   "A query and a key that point the same way have a large product.", "products", "sum", "raw")
        sheet.put("allowed", np.array([1.0] * (len(keys) - self.hidden) + [0.0] * self.hidden), symbol="may be read",
                  about="1 where it may be read", over="columns")
        sheet.work("e", "mask", "raw", "allowed", symbol="e", about="the scores; −∞ where nothing may be read",
                   over="columns")
        sheet.step("Mask", "e; −∞ where hidden", f"{self.hidden} of {len(keys)} columns are hidden." if self.hidden
                   else "Nothing is hidden here, and nothing is scaled.", "raw", "e")
        softmax_steps(sheet, "e", column=column, base=None if base == "e" else 3)

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "title": self.title, "about": self.about, "columns": list(self.columns),
                "base": self.base, "bases": list(BASES) if self.query else []}


def numbers(rows: Sequence[Any]) -> np.ndarray:
    return np.array([[float(Fraction(x)) for x in row] if isinstance(row, tuple) else float(Fraction(row))
                     for row in rows], np.float64)


def product(a: Matrix, b: Matrix) -> Matrix:
    return tuple(tuple(sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True))
                 for row in a)


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

AABA: dict[str, Any] = dict(columns=("A", "A", "B", "A"), values=(A, A, B, A), base="3")
THREE: dict[str, Any] = dict(columns=("v₁", "v₂", "v₃"), values=((1, 0, 0), (0, 1, 0), (0, 0, 1)))

# A(X) = softmax(X W_Q W_K^T X^T) X W_V, in whole numbers; P moves the rows of X.
X: Matrix = ((1, 0), (0, 1), (2, -1))
W_Q: Matrix = ((1, 1), (0, 1))
W_K: Matrix = ((0, 1), (1, -1))
W_V: Matrix = ((2, 0), (1, 3))
P: Matrix = ((0, 0, 1), (1, 0, 0), (0, 1, 0))


def reading(x: Matrix, row: int) -> dict[str, Any]:
    """A row of A(X): q = x W_Q, K = X W_K, V = X W_V."""
    return dict(query=product(x, W_Q)[row], keys=product(x, W_K), values=product(x, W_V), base="3")


ALL = [
    Preset("aaba", "A A B A, looking for B",
           "Embeddings A = [1, 0] and B = [0, 1]; the query [0, 1] looks for Bs. With base 3 the weights come out "
           "even: 1/6 1/6 1/2 1/6.", query=(0, 1), **AABA),
    Preset("aaba-10", "A A B A, looking harder",
           "With the query [0, 10] the weight is almost all on B: the output is almost exactly [0, 1].",
           query=(0, 10), **AABA),
    Preset("aaba-mean", "A A B A, the mean of all",
           "A deep averaging network reads everything alike: 1/4 each, and the output is [3/4, 1/4].",
           weights=("1/4",) * 4, **AABA),
    Preset("aaba-matrices", "A A B A through W_K = I and W_Q = 10 I",
           "Keys and query decoupled from the embeddings: the query of B is 10 [0, 1], the keys are the embeddings; it "
           "is the same as looking harder.", query=(0, 10), keys=(A, A, B, A), **AABA),
    Preset("aaba-self-a", "A A B A, self-attention of an A",
           "Every word asks, with E = Q = K: the first row of S = Q Kᵀ is 1 1 0 1.", query=A, **AABA),
    Preset("aaba-self-b", "A A B A, self-attention of the B", "The third row of S = Q Kᵀ is 0 0 1 0.", query=B, **AABA),
    Preset("aaba-self-a10", "A A B A, self-attention of an A, keys 10 E",
           "With Q = E and K = 10 E the scores are 10 E Eᵀ: the first row is 10 10 0 10.", query=A,
           keys=((10, 0), (10, 0), (0, 10), (10, 0)), **AABA),
    Preset("aaba-causal", "A A B A, the second A, with the mask",
           "A causal row does not see what comes later: the B and the last A are hidden.", query=A, hidden=2, **AABA),
    Preset("h3", "h₃ = 0.3 v₁ + 0.5 v₂ + 0.2 v₃", "The third row of a lower-triangular matrix times V.",
           weights=("0.3", "0.5", "0.2"), **THREE),
    Preset("h2", "h₂ = 0.7 v₁ + 0.3 v₂", "The second row of the same matrix: there is no term for q₂ k₃.",
           weights=("0.7", "0.3", "0"), **THREE),
    Preset("table-1", "First row of the table 1 / .3 .7 / .1 .5 .4", "The first word reads itself alone.",
           weights=("1", "0", "0"), **THREE),
    Preset("table-2", "Second row of the table: .3 .7", "The second word reads two.", weights=("0.3", "0.7", "0"),
           **THREE),
    Preset("table-3", "Third row of the table: .1 .5 .4", "The third word reads all three.",
           weights=("0.1", "0.5", "0.4"), **THREE),
    Preset("expanded", "A(X): the row of x₁",
           "X has the rows [1, 0], [0, 1], [2, −1]; W_Q = [1 1; 0 1], W_K = [0 1; 1 −1], W_V = [2 0; 1 3]. The query "
           "is x₁ W_Q, the keys are X W_K, the values X W_V: a row of A(X) = softmax(X W_Q W_Kᵀ Xᵀ) X W_V.",
           columns=("x₁", "x₂", "x₃"), **reading(X, 0)),
    Preset("equivariance", "A(P X): the row of x₁, moved",
           "The rows of X in another order: x₃, x₁, x₂. The query of x₁ is the same, and so is each key and value; the "
           "weights move along with them, and the output is that of A(X).",
           columns=("x₃", "x₁", "x₂"), **reading(product(P, X), 1)),
    Preset("location", "A location score as keys (W, b)",
           "e = w · q + b looks at no key, only at places. It is the product of (q, 1) with (w, b): with q = [2, 1] "
           "the query is [2, 1, 1], and the keys are the rows of (W, b).",
           columns=("place 1", "place 2", "place 3"), query=(2, 1, 1), keys=((1, 0, 0), (0, 1, -1), (1, -1, 2)),
           values=((6, 0), (0, 6), (12, 6)), base="3"),
]
PRESETS = {preset.name: preset for preset in ALL}
