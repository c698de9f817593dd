"""Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998), as KenLM defines it.

    p(w | c) = (a(cw) - D(a(cw))) / a(c·)  +  γ(c) p(w | c')          c' is c without its first word
    γ(c)     = Σ_w D(a(cw)) / a(c·)                                   so that the whole sums to one
    p(w | )  = (a(w) - D(a(w))) / a(·)     +  γ() / (V - 2)           all words but <pad> and <bos>

a is the adjusted count (see counting.py) and a(c·) = Σ_w a(cw). Each order has three discounts, for counts
of 1, 2, and 3 or more, estimated from n_i, how many of its k-grams have adjusted count i:

    Y = n_1 / (n_1 + 2 n_2)        D_i = i - (i + 1) Y n_{i+1} / n_i
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from regard.models.ngram.counting import UNPREDICTED, Grams, Ints, adjusted_counts
from regard.models.ngram.smoothing import Floats, Smoothed, log, sums

LAST_RESORT = 0.5         # the discount when the counts say nothing about it


def discounts(adjusted: Ints, order: int) -> tuple[Floats, str]:
    """(D(0), D(1), D(2), D(3 or more)), and why they are not the modified ones where they are not."""
    n = [int(np.count_nonzero(adjusted == i)) for i in range(5)]
    missing = [i for i in (1, 2, 3) if n[i] == 0]
    if not missing:
        y = n[1] / (n[1] + 2 * n[2])
        modified = [i - (i + 1) * y * n[i + 1] / n[i] for i in (1, 2, 3)]
        wrong = [i for i, d in zip((1, 2, 3), modified, strict=True) if not 0 < d <= i]
        if not wrong:
            return np.array([0.0, *modified]), ""
        why = f"the discount for count {wrong[0]} would be {modified[wrong[0] - 1]:.3f}"
    else:
        why = f"no {order}-gram has adjusted count {missing[0]}"
    single = n[1] / (n[1] + 2 * n[2]) if n[1] and n[2] else LAST_RESORT
    note = f"order {order}: one discount of {single:.3f} for all counts ({why})"
    return np.array([0.0, single, single, single]), note


def kneser_ney(grams: list[Grams], vocab: int, dtype: DTypeLike = np.float64) -> Smoothed:
    made = Smoothed()
    below: Floats = np.array([1 / (vocab - UNPREDICTED)])           # order 0: the uniform distribution
    for order, (each, counts) in enumerate(zip(grams, adjusted_counts(grams), strict=True), start=1):
        discount, note = discounts(counts, order)
        probabilities, left = _interpolate(counts, discount, each.keys // vocab, below, each.suffix)
        if order == 1:
            probabilities[:UNPREDICTED] = 0
        else:                                                       # the empty context has nothing below it
            made.backoffs.append(log(left).astype(dtype))
        made.logprobs.append(log(probabilities).astype(dtype))
        made.discounts.append(discount[1:].tolist())
        made.notes += [note] if note else []
        below = probabilities
    return made


def _interpolate(counts: Ints, discount: Floats, contexts: Ints, below: Floats, suffix: Ints) -> tuple[Floats, Floats]:
    """p of every k-gram, and γ of every context (1 for one that nothing follows)."""
    taken = discount[np.minimum(counts, 3)]
    total = sums(contexts, counts, len(below))
    left = sums(contexts, taken, len(below))
    followed = total > 0
    left[followed] /= total[followed]
    left[~followed] = 1
    return (counts - taken) / total[contexts] + left[contexts] * below[suffix], left
