"""Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998), as KenLM defines it.

    p(w | c) = (a(cw) - D(a(cw))) / a(c·)  +  γ(c) p(w | c')          c' is c without its first word
    γ(c)     = Σ_w D(a(cw)) / a(c·)                                   so that the whole sums to one
    p(w | )  = (a(w) - D(a(w))) / a(·)     +  γ() / (V - 2)           all words but <pad> and <bos>

a is the adjusted count (see counting.py) and a(c·) = Σ_w a(cw). Each order has three discounts, for counts
of 1, 2, and 3 or more, estimated from n_i, how many of its k-grams have adjusted count i:

    Y = n_1 / (n_1 + 2 n_2)        D_i = i - (i + 1) Y n_{i+1} / n_i

A k-gram that is pruned has its whole count taken, D(a) = a, and what is taken goes to the shorter context, as ever.
The other numbers stay those of the whole text.
"""

from __future__ import annotations

import numpy as np

from regard.models.ngram.room import Floats, Ints
from regard.models.ngram.smoothing import SmoothingRule, Stretch, sums

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


class KneserNey(SmoothingRule):
    def begin(self, order: int, counts: Ints) -> None:
        self.discount, note = discounts(counts, order)
        self.discounts.append(self.discount[1:].tolist())
        self.notes += [note] if note else []

    def smooth(self, part: Stretch) -> tuple[Floats, Floats]:
        taken = np.where(part.kept, self.discount[np.minimum(part.counts, 3)], part.counts)
        total = sums(part.of, part.counts, part.contexts)
        left = sums(part.of, taken, part.contexts)
        followed = total > 0
        left[followed] /= total[followed]
        left[~followed] = 1
        return (part.counts - taken) / total[part.of] + left[part.of] * part.below, left
