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
    sheet = Sheet()
    given = {name: np.asarray(path[name], np.float64) for name in ("count", "total", "discount", "weight", "share",
                                                                   "rest")}
    if (given["count"] < 0).any():
        return _shares_alone(sheet, given, p)
    sheet.put("count", given["count"], symbol="a", over="orders",
              about="how often the word followed the context; below "
              "the highest order of Kneser-Ney, after how many different words")
    sheet.put("total", given["total"], symbol="total", over="orders", about="the same for any word")
    sheet.step("Counts", "a, total", "What was counted for each length of context.", "count", "total")
    if smoothing == "add-k":
        return _add_k(sheet, given, words, p, k)
    sheet.put("discount", given["discount"], symbol="D", over="orders", about="what is taken off each count")
    sheet.work("own", "discounted", "count", "discount", "total", symbol="(a − D) / total", over="orders",
               about="what the order says by itself; 0 where the word was not seen")
    sheet.step("Discount", "(a − D) / total", "A little is taken off every count, for words that were not seen there."
               if given["discount"].any() else "Nothing is taken off: the counts are divided by their sum.",
               "discount", "own")
    sheet.put("weight", given["weight"], symbol="γ", over="orders",
              about="what the order leaves to shorter ones; 1 where its context was never seen")
    sheet.work("left", "left-over", "weight", symbol="left", over="orders",
               about="what reaches the order: the product of γ of all longer ones")
    sheet.step("Back-off", "left_k = γ_n … γ_{k+1}", "What an order takes off its counts it leaves to the next shorter "
               "context.", "weight", "left")
    sheet.work("share", "times", "left", "own", values=given["share"], symbol="share", over="orders",
               about="what each order gives to the probability")
    sheet.work("last", "product", "weight", how={"after": -1, "to": len(given["weight"]) - 1}, symbol="γ_n … γ_1",
               about="what reaches the words themselves")
    if given["rest"]:
        sheet.work("rest", "scale", "last", how={"by": 1 / words}, values=given["rest"], symbol="rest",
                   about=f"spread evenly over {words:,} words")
    else:
        sheet.put("rest", given["rest"], symbol="rest", about="nothing is left for this word")
    _probability(sheet, p)
    return sheet


def _probability(sheet: Sheet, p: float) -> None:
    sheet.work("shares", "sum", "share", symbol="Σ share", about="all orders together")
    sheet.work("p", "plus", "shares", "rest", values=np.float64(p), symbol="p", about="the probability")
    sheet.step("Shares, added up", "p = Σ share + rest", "The shares of all orders and the rest are the probability.",
               "share", "shares", "rest", "p")


def _shares_alone(sheet: Sheet, given: Mapping[str, Any], p: float) -> Sheet:
    sheet.put("weight", given["weight"], symbol="γ", over="orders", about="what each order leaves to shorter ones")
    sheet.work("left", "left-over", "weight", symbol="left", over="orders", about="what reaches the order")
    sheet.step("Back-off", "left_k = γ_n … γ_{k+1}", "This model has kept no counts: train it with counts = true. A "
               "model from an ARPA file has none.", "weight", "left")
    sheet.put("share", given["share"], symbol="share", over="orders", about="what each order gives to the probability")
    sheet.put("rest", given["rest"], symbol="rest", about="spread evenly over all words")
    _probability(sheet, p)
    return sheet


def _add_k(sheet: Sheet, given: Mapping[str, Any], words: int, p: float, k: float) -> Sheet:
    """One order decides: the longest whose context is in the text."""
    deciding = int(np.argmax(given["share"]))
    sheet.work("seen", "pick", "count", how={"index": deciding}, symbol=f"a_{deciding + 1}",
               about="of the order that decides")
    sheet.work("of", "pick", "total", how={"index": deciding}, symbol=f"total_{deciding + 1}", about="and its total")
    sheet.put("k", k, symbol="k", about="added to every count")
    sheet.put("all k", k * words, symbol=f"k · {words:,}", about="and so to the total, once for each word")
    sheet.work("more", "plus", "seen", "k", symbol="a + k", about="as if seen k times more")
    sheet.work("of more", "plus", "of", "all k", symbol="total + k V", about="the total likewise")
    sheet.step("Add k", "a + k,  total + k V", "The longest context decides alone; every word counts k more.", "seen",
               "of",
               "more", "of more")
    sheet.work("p", "over", "more", "of more", values=np.float64(p), symbol="p", about="the probability")
    sheet.step("Divide", "p = (a + k) / (total + k V)", "One share, and the whole of it.", "p")
    return sheet
