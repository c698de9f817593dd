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
    about, sheet = reading.about, Sheet()
    group = head // (about["q"].shape[1] // about["k"].shape[1])
    q, keys, values = about["q"][0, head, row], about["k"][0, group], about["v"][0, group]
    sheet.put("q", q, symbol="q", about="the query: what this row asks", over="channels")
    if keys.shape[-1]:                                         # a location score has none
        sheet.put("keys", keys, symbol="k", about="the keys: what each column answers to", over="columns")
        sheet.work("k", "pick", "keys", how={"index": column}, symbol="k", about="the key of the selected column",
                   over="channels")
    SCORINGS[score_name(about["score"])](sheet, about["score"], q, keys, head, column)
    changed_scores(sheet, reading, head, row)
    softmax_steps(sheet, "e", values=reading.values[0, head, row], column=column)
    value_steps(sheet, values, column, about["output"][0, head, row],
                place=f"it is number {head + 1} of {reading.values.shape[1]} heads, which are put one after another "
                      f"and mixed by one matrix (W_out)" if has_output_matrix(reading) else "")
    return sheet


def has_output_matrix(reading: Reading) -> bool:
    return hasattr(reading.layer, "out")


# ------------------------------------------------------------------------------------------- 1 and 2: e(q, k)

Scoring = Callable[[Sheet, Any, Tensor, Tensor, int, int], None]


def by_product(
    sheet: Sheet, names: tuple[str, str, str], q: Tensor, keys: Tensor, column: int, formula: str, about: str
) -> None:
    """q' . k' of the selected cell, product by product; then of all columns. `names` are of query, key and keys."""
    query, key, every = names
    products = q * keys[column]
    sheet.work("products", "times", query, key, values=products, symbol="qᵢ kᵢ", about="channel by channel",
               over="channels")
    sheet.work("sum", "sum", "products", values=products.sum(), symbol="Σ qᵢ kᵢ",
               about="their sum, for the selected column")
    sheet.work("raw", "dot", every, query, values=keys @ q, symbol="q · k", about="the same for every column",
               over="columns")
    sheet.step("Products and their sum", formula, about, "products", "sum", "raw")


def as_they_are(sheet: Sheet, score: Dot | None, q: Tensor, keys: Tensor, head: int, column: int) -> None:
    sheet.step("Query and keys", "q,  k", "The row asks with its query, and every column answers with its key.",
               "q", "k", "keys")
    by_product(sheet, ("q", "k", "keys"), q, keys, column, "q · k = Σᵢ qᵢ kᵢ",
               "A query and a key that point the same way have a large product.")


def bilinear(sheet: Sheet, score: Bilinear, q: Tensor, keys: Tensor, head: int, column: int) -> None:
    weight = score.weight[head]
    sheet.put("W", weight, symbol="W", about="the matrix of the score, learned", over="matrix")
    sheet.work("turned", "turned", "W", "q", values=q @ weight, symbol="q′ = q W", about="the query through W",
               over="channels")
    sheet.step("Query, through a matrix, and keys", "q′ = q W",
               "A bilinear score first turns the query by a learned matrix.", "q", "turned", "k", "keys")
    by_product(sheet, ("turned", "k", "keys"), q @ weight, keys, column, "q W k = Σᵢ q′ᵢ kᵢ",
               "Then it is a product with the key.")


def low_rank(sheet: Sheet, score: LowRank, q: Tensor, keys: Tensor, head: int, column: int) -> None:
    for name, weight in (("U", score.u[head]), ("V", score.v[head])):
        sheet.put(name, weight, symbol=name, about="a narrow matrix of the score, learned", over="matrix")
    sheet.work("turned", "turned", "U", "q", values=q @ score.u[head], symbol="q′ = q U", about="the query through U",
               over="channels")
    sheet.work("turned keys", "turned", "V", "keys", values=keys @ score.v[head], symbol="k′ = k V",
               about="the keys through V", over="columns")
    sheet.work("turned key", "pick", "turned keys", how={"index": column}, symbol="k′",
               about="that of the selected column", over="channels")
    sheet.step("Query and keys, through narrow matrices", "q′ = q U,  k′ = k V",
               "Both are brought to a few channels, in which they are compared.", "q", "turned", "k", "turned key",
               "turned keys")
    by_product(sheet, ("turned", "turned key", "turned keys"), q @ score.u[head], keys @ score.v[head], column,
               "(q U) · (k V) = Σᵢ q′ᵢ k′ᵢ", "A product in few channels.")


def additive(sheet: Sheet, score: Additive, q: Tensor, keys: Tensor, head: int, column: int) -> None:
    w, u, v = score.w[head], score.u[head], score.v[head, :, 0]
    for name, values, told, over in (("W", w, "for the query", "matrix"), ("U", u, "for the keys", "matrix"),
                                     ("net", v, "for what the two give together", "channels")):
        sheet.put(name, values, symbol="v" if name == "net" else name, over=over,
                  about=f"the weights of a small network, {told}")
    sheet.work("turned", "turned", "W", "q", values=q @ w, symbol="q W", about="the query through W", over="channels")
    sheet.work("turned keys", "turned", "U", "keys", values=keys @ u, symbol="k U", about="the keys through U",
               over="columns")
    sheet.work("turned key", "pick", "turned keys", how={"index": column}, symbol="k U",
               about="that of the selected column", over="channels")
    sheet.step("Query and keys, through a layer each", "q W,  k U",
               "An additive score is a small network with one hidden layer, which sees a query and a key.", "q",
               "turned", "k", "turned key", "turned keys")
    sheet.work("both", "plus", "turned", "turned key", symbol="q W + k U", about="added up", over="channels")
    sheet.work("bent", "tanh", "both", symbol="tanh(q W + k U)", about="each kept between −1 and 1", over="channels")
    sheet.work("products", "times", "bent", "net", symbol="vᵢ tanhᵢ", about="weighed by v", over="channels")
    sheet.work("sum", "sum", "products", symbol="Σ vᵢ tanhᵢ", about="their sum, for the selected column")
    sheet.work("raw", "additive", "turned", "turned keys", "net", values=torch.tanh(q @ w + keys @ u) @ v,
               symbol="v · tanh(q W + k U)",
               about="the same for every column", over="columns")
    sheet.step("A small network", "v · tanh(q W + k U)", "Its hidden layer adds the two up and bends the sum; v weighs "
               "it.", "both", "bent", "net", "products", "sum", "raw")


def location(sheet: Sheet, score: Location, q: Tensor, keys: Tensor, head: int, column: int) -> None:
    weight, bias = score.weight[head, :, :len(keys)], score.bias[head, 0, :len(keys)]
    sheet.put("W", weight, symbol="W", about="a column of weights for each place", over="matrix")
    sheet.put("b", bias, symbol="b", about="a number for each place", over="columns")
    sheet.put("place", weight[:, column], symbol="W[:, s]", about="the weights of the selected place", over="channels")
    sheet.step("A query, and no key", "q,  W,  b", "A location score says where to look from the query alone; the keys "
               "are not asked.", "q", "place", "b")
    sheet.work("products", "times", "q", "place", symbol="qᵢ Wᵢₛ", about="channel by channel", over="channels")
    sheet.work("sum", "sum", "products", symbol="Σ qᵢ Wᵢₛ", about="their sum, for the selected column")
    sheet.work("said", "turned", "W", "q", values=q @ weight, symbol="q W", about="the same for every column",
               over="columns")
    sheet.work("raw", "plus", "said", "b", symbol="q W + b", about="with the number of each place", over="columns")
    sheet.step("A number for each place", "q W + b", "The entry of the selected place, product by product.",
               "products", "sum", "said", "raw")


SCORINGS: dict[str, Scoring] = {
    "dot": as_they_are, "scaled-dot": as_they_are, "bilinear": bilinear, "low-rank": low_rank,
    "scaled-low-rank": low_rank, "additive": additive, "location": location,
}


# ------------------------------------------------------------------------------------- 3: scale, bias, mask


def changed_scores(sheet: Sheet, reading: Reading, head: int, row: int) -> None:
    """From `raw` to `e`, what enters the softmax; each change only where there is one."""
    about, latest = reading.about, "raw"
    scale = scale_of(about["score"], about["q"].shape[-1])
    parts, shown = [], ["raw"]
    if scale != 1:
        sheet.work("scaled", "scale", latest, how={"by": scale}, symbol=f"× {scale:.6g}",
                   about="divided by the root of the width, or the scores would grow with it", over="columns")
        latest, parts = "scaled", [f"{'q · k'} / √{round(scale**-2)}"]
        shown.append("scaled")
    if about["softcap"]:
        cap = about["softcap"]
        sheet.work("capped", "softcap", latest, how={"at": cap}, symbol=f"{cap:g} tanh(· / {cap:g})",
                   about=f"bent to stay between −{cap:g} and {cap:g}", over="columns")
        latest, parts = "capped", [*parts, "softcap"]
        shown.append("capped")
    if about["bias"] is not None:
        sheet.put("bias", about["bias"][0, head, row], symbol="bias", about="what distance takes off (ALiBi)",
                  over="columns")
        sheet.work("biased", "plus", latest, "bias", symbol="+ bias", about="with the bias", over="columns")
        latest, parts = "biased", [*parts, "+ bias"]
        shown += ["bias", "biased"]
    allowed = about["allowed"]
    mask = allowed[0, head, row].float() if allowed is not None else about["q"].new_ones(about["k"].shape[2])
    sheet.put("allowed", mask, symbol="may be read", about="1 where this row may read, 0 where it may not",
              over="columns")
    sheet.work("e", "mask", latest, "allowed", values=about["scores"][0, head, row], symbol="e", over="columns",
               about="the scores; −∞ where nothing may be read")
    hidden = int((mask == 0).sum())
    sheet.step("Scale and mask" if scale != 1 else "Mask", f"e = {', '.join(parts) or 'as it is'}; −∞ where hidden",
               f"{hidden} of {len(mask)} columns are hidden from this row." if hidden else
               "Every column may be read by this row.", *shown, "e")


def scale_of(score: Score | None, width: int) -> float:
    return 1 / math.sqrt(width) if score is None else score.scale


# -------------------------------------------------------------------------------------- 4 and 5: alpha, alpha v


def softmax_steps(sheet: Sheet, scores: str, *, column: int, values: Any = None, base: float | None = None) -> None:
    """exp, sum and alpha for the row. A row that may read nothing gives zeros."""
    def raised(what: str) -> str:
        return f"exp({what})" if base is None else f"{base:g}^({what})"

    sheet.work("top", "largest", scores, symbol="max e", about="the largest score; taken off first, so that nothing "
               "grows too large: the shares stay the same")
    sheet.work("powers", "power", scores, "top", how={} if base is None else {"base": base}, symbol=raised("e − max"),
               about="each score as a power" + ("" if base is None else f" of {base:g}"), over="columns")
    sheet.work("total", "sum", "powers", symbol="Σ", about="their sum")
    sheet.work("alpha", "share", "powers", "total", values=values, symbol="α", about="the weights: each share of the "
               "sum", over="columns")
    sheet.work("alpha here", "pick", "alpha", how={"index": column}, symbol="α here", about="of the selected column")
    sheet.step("Powers and shares (softmax)", f"α = {raised('e − max')} / Σ {raised('e − max')}",
               "Every score becomes a positive number, and its share of their sum is the weight. The weights of a row "
               "sum to 1.", scores, "top", "powers", "total", "alpha", "alpha here")


def value_steps(sheet: Sheet, values: Any, column: int, output: Any = None, place: str = "") -> None:
    """alpha v of the selected column, and the sum over all: what the head gives."""
    sheet.put("values", values, symbol="v", about="the values: what each column gives", over="columns")
    sheet.work("value", "pick", "values", how={"index": column}, symbol="v", about="the value of the selected column",
               over="channels")
    sheet.work("part", "times", "alpha here", "value", symbol="α v", about="its share of the output", over="channels")
    sheet.work("output", "weighted", "alpha", "values", values=output, symbol="Σ α v", about="the output: what is read "
               "of all columns", over="channels")
    sheet.step("Values, weighed and added up", "output = Σ α v",
               f"What the head gives is the mean of the values, each with its weight{'; ' + place if place else ''}.",
               "alpha here", "value", "part", "output")
