"""The arithmetic of an n-gram's answer: counts, discounts, back-off, and what each order gives to the probability.

    p(w | c) = sum over orders k of share_k + rest       share_k = left_k (a_k - D_k) / total_k

left_k is what the longer orders leave to order k: the product of their weights.   n order
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.look.arithmetic_sheet import Sheet


def backoff_sheet(path: Mapping[str, Any], *, smoothing: str, words: int, p: float, k: float = 0.0) -> Sheet:
    """`path` is what was recorded of one target: arrays (n,), orders from 1 up; `words` may be predicted."""
    given = {name: np.asarray(path[name], np.float64) for name in ("count", "total", "discount", "weight", "share",
                                                                   "rest")}
    if (given["count"] < 0).any():
        return _shares_alone(given, p)
    sheet = Sheet(texts=("add-k", "back-off") if smoothing == "add-k" else ("back-off",))
    sheet.put("count", given["count"])
    sheet.put("total", given["total"])
    sheet.step("counts")
    if smoothing == "add-k":
        return _add_k(sheet, given, words, p, k)
    sheet.put("discount", given["discount"])
    sheet.work("own", "discounted", "count", "discount", "total")
    sheet.step("discount" if given["discount"].any() else "no discount")
    sheet.put("weight", given["weight"])
    sheet.work("left", "left-over", "weight")
    sheet.step("back-off")
    sheet.work("share", "times", "left", "own", values=given["share"])
    sheet.work("last", "product", "weight", how={"after": -1, "to": len(given["weight"]) - 1})
    if given["rest"]:
        sheet.work("rest", "scale", "last", how={"by": 1 / words}, values=given["rest"],
                   rest=f"spread evenly over {words:,} words")
    else:
        sheet.put("rest", given["rest"], rest="nothing is left for this word")
    return _probability(sheet, p)


def _probability(sheet: Sheet, p: float) -> Sheet:
    sheet.work("shares", "sum", "share")
    sheet.work("p", "plus", "shares", "rest", values=np.float64(p))
    sheet.step("p")
    return sheet


def _shares_alone(given: Mapping[str, Any], p: float) -> Sheet:
    sheet = Sheet(texts=("no-counts", "back-off"))
    sheet.put("weight", given["weight"])
    sheet.work("left", "left-over", "weight")
    sheet.step("back-off")
    sheet.put("share", given["share"])
    sheet.put("rest", given["rest"], rest="spread evenly over all words")
    return _probability(sheet, p)


def _add_k(sheet: Sheet, given: Mapping[str, Any], words: int, p: float, k: float) -> Sheet:
    """One order decides: the longest whose context is in the text."""
    deciding = int(np.argmax(given["share"]))
    sheet.work("seen", "pick", "count", how={"index": deciding}, order=deciding + 1)
    sheet.work("of", "pick", "total", how={"index": deciding}, order=deciding + 1)
    sheet.put("k", k)
    sheet.put("all k", k * words, words=words)
    sheet.work("more", "plus", "seen", "k")
    sheet.work("of more", "plus", "of", "all k")
    sheet.step("add")
    sheet.work("p", "over", "more", "of more", values=np.float64(p))
    sheet.step("p")
    return sheet
