"""95% intervals, in one place: over seeds, and over sentences. They answer different questions.

Over seeds: how would this number come out with another seed? An interval is for the *median* over seeds: half of all
seeds give more, half give less. From six seeds on it needs no assumption: of n seeds drawn anywhere, the chance that k
or fewer lie below the median is that of k or fewer heads among n coins, so the seeds that remain when k are cut off at
each end have the median between them in at least 95% of cases.

    k: the largest with 2 P(Binomial(n, 1/2) <= k) <= 0.05            n = 6: 0, from least to largest · n = 10: 1

Fewer seeds than six cannot do that for every distribution. There the interval reaches from the least to the largest and
at least as far as Student's t says: 95% where seeds scatter like a normal, and about that where they do not.
A mean would ask for more seeds than anybody runs: where one seed in ten fails, 59% of all fives have no such seed, and
no interval that is worked out from them can know of it. `bench/coverage.py` measures all this.

Over sentences: how would the score come out on other sentences of the same kind, by the same model? The sentences are
drawn again, with replacement (`resampling`), and 95% of the scores lie between.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
SURE = 6                                   # seeds, at least, for an interval that holds whatever the distribution is
SEEDS, SENTENCES = "95% over seeds", "95% over sentences"            # how the two are called wherever they are shown
TEXTS = "95% over texts"                   # the second, where what is drawn again is a document with its summary

# Two-sided 95% points of Student's t, for 1, 2, 3 and 4 degrees of freedom.
T95 = (12.706, 4.303, 3.182, 2.776)


@dataclass(frozen=True)
class OverSeeds:
    """The median over seeds and its 95% interval; without an interval, from minus infinity to infinity."""

    median: float
    low: float
    high: float
    seeds: int

    @property
    def known(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


def over_seeds(values: Sequence[float]) -> OverSeeds:
    """One value has no interval, and neither have values that are not finite."""
    median, count = statistics.median(values), len(values)
    if count < 2 or not all(map(math.isfinite, values)):
        return OverSeeds(median, -math.inf, math.inf, count)
    ordered, cut = sorted(values), cut_off(count)
    low, high = ordered[cut], ordered[-cut - 1]
    if count < SURE:
        mean, half = statistics.fmean(values), T95[count - 2] * statistics.stdev(values) / math.sqrt(count)
        low, high = min(low, mean - half), max(high, mean + half)
    return OverSeeds(median, low, high, count)


def cut_off(count: int) -> int:
    """The number of seeds to cut off at each end such that the median lies between the others in 95% of cases; 0 where
    even that is too many."""
    outside, cut = 0.0, -1
    while (outside := outside + 2 * math.comb(count, cut + 1) / 2**count) <= 1 - LEVEL:
        cut += 1
    return max(0, cut)


def over_sentences(scores: NDArray[np.float64]) -> tuple[float, float]:
    """The interval of 95% of the scores of resampled sentences: one in forty is cut off at each end."""
    ordered = np.sort(scores)
    cut = len(ordered) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])
