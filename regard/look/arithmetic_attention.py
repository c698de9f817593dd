"""The arithmetic of one cell of attention: from a query and the keys to what the head gives.

    e = score(q, k),  alpha = softmax(e) over the keys,  output = sum of alpha v

The numbers are those of a reading that was watched closely (`regard.watch(closely=True)`); the weights and the output
are what the model itself had, by whatever kernel.   S keys · K head width · R rank · A width of an additive score
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.layers.scores import Additive, Bilinear, Dot, Location, LowRank, Score
from regard.look.arithmetic_sheet import Sheet
from regard.watching import Reading


def score_name(score: Score | None) -> str:
    """The name of a score; without one, attention uses q · k / sqrt K."""
    return "scaled-dot" if score is None else score.name


def attention_sheet(reading: Reading, head: int, row: int, column: int) -> Sheet:
    """All steps for the key at `column`, as the query at `row` reads it; heads, rows and columns count from 0.

    The reading is of one text: its batch is 1.
    """
    about, name = reading.about, score_name(reading.about["score"])
    scoring, own = SCORINGS[name]
    sheet = Sheet(texts=(*own, "attention", "product", "softmax"))
    group = head // (about["q"].shape[1] // about["k"].shape[1])
    q, keys, values = about["q"][0, head, row], about["k"][0, group], about["v"][0, group]
    sheet.put("q", q)
    if keys.shape[-1]:                                         # a location score has none
        sheet.put("keys", keys)
        sheet.work("k", "pick", "keys", how={"index": column})
    scoring(sheet, about["score"], q, keys, head, column)
    changed_scores(sheet, reading, head, row)
    softmax_steps(sheet, "e", values=reading.values[0, head, row], column=column)
    value_steps(sheet, values, column, about["output"][0, head, row],
                place=f"; it is number {head + 1} of {reading.values.shape[1]} heads, which are put one after another "
                      f"and mixed by one matrix (W_out)" if hasattr(reading.layer, "out") else "")
    return sheet


# ------------------------------------------------------------------------------------------- 1 and 2: e(q, k)

Scoring = Callable[[Sheet, Any, Tensor, Tensor, int, int], None]


def by_product(sheet: Sheet, query: str, key: str, every: str, q: Tensor, keys: Tensor, column: int) -> None:
    """q' . k' of the selected cell, product by product; then of all columns. The names are of query, key and keys."""
    products = q * keys[column]
    sheet.work("products", "times", query, key, values=products)
    sheet.work("sum", "sum", "products", values=products.sum())
    sheet.work("raw", "dot", every, query, values=keys @ q)
    sheet.step("products")


def as_they_are(sheet: Sheet, score: Dot | None, q: Tensor, keys: Tensor, head: int, column: int) -> None:
    sheet.step("keys")
    by_product(sheet, "q", "k", "keys", q, keys, column)


def bilinear(sheet: Sheet, score: Bilinear, q: Tensor, keys: Tensor, head: int, column: int) -> None:
    weight = score.weight[head]
    sheet.put("W", weight)
    sheet.work("turned", "turned", "W", "q", values=q @ weight)
    sheet.step("keys")
    by_product(sheet, "turned", "k", "keys", q @ weight, keys, column)


def low_rank(sheet: Sheet, score: LowRank, q: Tensor, keys: Tensor, head: int, column: int) -> None:
    u, v = score.u[head], score.v[head]
    sheet.put("U", u)
    sheet.put("V", v)
    sheet.work("turned", "turned", "U", "q", values=q @ u)
    sheet.work("turned keys", "turned", "V", "keys", values=keys @ v)
    sheet.work("turned key", "pick", "turned keys", how={"index": column})
    sheet.step("keys")
    by_product(sheet, "turned", "turned key", "turned keys", q @ u, keys @ v, column)


def additive(sheet: Sheet, score: Additive, q: Tensor, keys: Tensor, head: int, column: int) -> None:
    w, u, v = score.w[head], score.u[head], score.v[head, :, 0]
    sheet.put("W", w)
    sheet.put("U", u)
    sheet.put("net", v)
    sheet.work("turned", "turned", "W", "q", values=q @ w)
    sheet.work("turned keys", "turned", "U", "keys", values=keys @ u)
    sheet.work("turned key", "pick", "turned keys", how={"index": column})
    sheet.step("keys")
    sheet.work("both", "plus", "turned", "turned key")
    sheet.work("bent", "tanh", "both")
    sheet.work("products", "times", "bent", "net")
    sheet.work("sum", "sum", "products")
    sheet.work("raw", "additive", "turned", "turned keys", "net", values=torch.tanh(q @ w + keys @ u) @ v)
    sheet.step("products")


def location(sheet: Sheet, score: Location, q: Tensor, keys: Tensor, head: int, column: int) -> None:
    weight, bias = score.weight[head, :, :len(keys)], score.bias[head, 0, :len(keys)]
    sheet.put("W", weight)
    sheet.put("b", bias)
    sheet.put("place", weight[:, column])
    sheet.step("keys")
    sheet.work("products", "times", "q", "place")
    sheet.work("sum", "sum", "products")
    sheet.work("said", "turned", "W", "q", values=q @ weight)
    sheet.work("raw", "plus", "said", "b")
    sheet.step("products")


# The steps of each score, and the table of its words where it has its own.
SCORINGS: dict[str, tuple[Scoring, tuple[str, ...]]] = {
    "dot": (as_they_are, ()), "scaled-dot": (as_they_are, ()), "bilinear": (bilinear, ("bilinear",)),
    "low-rank": (low_rank, ("low-rank",)), "scaled-low-rank": (low_rank, ("low-rank",)),
    "additive": (additive, ("additive",)), "location": (location, ("location",)),
}


# ------------------------------------------------------------------------------------- 3: scale, bias, mask


def changed_scores(sheet: Sheet, reading: Reading, head: int, row: int) -> None:
    """From `raw` to `e`, what enters the softmax; each change only where there is one."""
    about, latest, changes = reading.about, "raw", []
    score, cap = about["score"], about["softcap"]
    scale = 1 / math.sqrt(about["q"].shape[-1]) if score is None else score.scale
    if scale != 1:
        sheet.work("scaled", "scale", latest, how={"by": scale}, scale=scale)
        latest, changes = "scaled", [f"q · k / √{round(scale**-2)}"]
    if cap:
        sheet.work("capped", "softcap", latest, how={"at": cap}, cap=cap)
        latest, changes = "capped", [*changes, "softcap"]
    if about["bias"] is not None:
        sheet.put("bias", about["bias"][0, head, row])
        sheet.work("biased", "plus", latest, "bias")
        latest, changes = "biased", [*changes, "+ bias"]
    allowed = about["allowed"]
    mask = allowed[0, head, row].float() if allowed is not None else about["q"].new_ones(about["k"].shape[2])
    sheet.put("allowed", mask)
    sheet.work("e", "mask", latest, "allowed", values=about["scores"][0, head, row])
    hidden = int((mask == 0).sum())
    sheet.step("mask", title="Scale and mask" if scale != 1 else "Mask", changes=", ".join(changes) or "as it is",
               hidden=f"{hidden} of {len(mask)} columns are hidden from this row." if hidden else
               "Every column may be read by this row.")


# -------------------------------------------------------------------------------------- 4 and 5: alpha, alpha v


def softmax_steps(sheet: Sheet, scores: str, *, column: int, values: Any = None, base: float | None = None) -> None:
    """exp, sum and alpha for the row. A row that may read nothing gives zeros."""
    raised = "exp(e − max)" if base is None else f"{base:g}^(e − max)"
    sheet.work("top", "largest", scores)
    sheet.work("powers", "power", scores, "top", how={} if base is None else {"base": base}, raised=raised,
               of_base="" if base is None else f" of {base:g}")
    sheet.work("total", "sum", "powers")
    sheet.work("alpha", "share", "powers", "total", values=values)
    sheet.work("alpha here", "pick", "alpha", how={"index": column})
    sheet.step("shares", raised=raised)


def value_steps(sheet: Sheet, values: Any, column: int, output: Any = None, place: str = "") -> None:
    """alpha v of the selected column, and the sum over all: what the head gives."""
    sheet.put("values", values)
    sheet.work("value", "pick", "values", how={"index": column})
    sheet.work("part", "times", "alpha here", "value")
    sheet.work("output", "weighted", "alpha", "values", values=output)
    sheet.step("values", place=place)
