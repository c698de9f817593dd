"""What smoothing makes of counts; and the two simplest ways, both straight from the textbook.

    none     p(w | c) = n(cw) / n(c·)                       zero where cw was never seen
    add-k    p(w | c) = (n(cw) + k) / (n(c·) + k (V - 2))   V - 2: all words but <pad> and <bos>

For `none` a context that was never seen has no opinion, and the longest one that was is asked instead; for
`add-k` it leaves n = 0, the uniform distribution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from regard.models.ngram.counting import UNPREDICTED, Grams, Ints

Floats = NDArray[Any]        # float32 or float64


@dataclass
class Smoothed:
    """Order by order, from 1: log p of every k-gram; and, but for the last order, what its lack costs."""

    logprobs: list[Floats] = field(default_factory=list)
    backoffs: list[Floats] = field(default_factory=list)      # log γ; for add-k log p of any word not seen there
    discounts: list[list[float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def unsmoothed(grams: list[Grams], vocab: int, dtype: DTypeLike = np.float64) -> Smoothed:
    """Counted and normalised."""
    made = Smoothed()
    for each, contexts, total in _with_totals(grams, vocab):
        made.logprobs.append(log(each.counts / total[contexts]).astype(dtype))
        made.backoffs.append(np.where(total > 0, -np.inf, 0.0).astype(dtype))
    del made.backoffs[0]                                       # of the empty context: there is nothing below
    return made


def add_k(grams: list[Grams], vocab: int, k: float, dtype: DTypeLike = np.float64) -> Smoothed:
    """As if everything had been seen k times more."""
    made = Smoothed()
    extra = k * (vocab - UNPREDICTED)
    for each, contexts, total in _with_totals(grams, vocab):
        made.logprobs.append(log((each.counts + k) / (total[contexts] + extra)).astype(dtype))
        made.backoffs.append(log(k / (total + extra)).astype(dtype))
    del made.backoffs[0]
    made.logprobs[0][:UNPREDICTED] = -np.inf
    return made


def _with_totals(grams: list[Grams], vocab: int) -> Iterator[tuple[Grams, Ints, Floats]]:
    """Order by order the k-grams cw, the id of each one's context c, and for all contexts n(c·)."""
    known = 1                                                  # the empty context
    for each in grams:
        contexts = each.keys // vocab
        yield each, contexts, sums(contexts, each.counts, known)
        known = len(each)


def sums(groups: Ints, amounts: Ints | Floats, count: int) -> NDArray[np.float64]:
    """The sum of the amounts in each of `count` groups."""
    return np.bincount(groups, weights=amounts, minlength=count).astype(np.float64, copy=False)


def log(x: Floats) -> Floats:
    """log, with log 0 = -inf."""
    with np.errstate(divide="ignore"):
        return np.log(x)
