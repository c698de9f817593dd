"""Units of a text, which are drawn again for an interval: documents, or stretches of one long text.

U units · C counts of a unit
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from regard.data.reading.shards import Shard
from regard.metrics.intervals import over_sentences
from regard.metrics.resampling import Counts, Interval, Scores, resample

FEW = 10                             # documents; fewer are taken for one long text
STRETCH, SHORT_STRETCH = 1024, 256   # tokens of such a text that make a unit; the second where it has few of the first
MOST = 2048                          # units; more are put together, so that what is kept is bounded
SAMPLES, SEED = 1000, 12345          # as sacreBLEU draws


def unit_ends(shard: Shard) -> tuple[np.ndarray, str]:
    """The token after each unit of a text, and what a unit is."""
    tokens = len(shard.tokens)
    ends, of = np.asarray(shard.ends, dtype=np.int64), "documents"
    if len(ends) < FEW:
        size = STRETCH if tokens >= 2 * FEW * STRETCH else SHORT_STRETCH
        ends, of = np.append(np.arange(size, tokens, size), tokens), f"stretches of {size:,} tokens"
    if len(ends) <= MOST:
        return ends, of
    return ends[np.arange(1, MOST + 1) * len(ends) // MOST - 1], f"groups of {of}"


def interval_over(counts: Counts, score: Callable[[Counts], Scores]) -> Interval | None:
    """Return the 95% interval of a score of summed counts, the units (U, C) drawn again; None of too few units."""
    if len(counts) < FEW or not np.isfinite(counts).all():
        return None
    return over_sentences(score(resample(counts, SAMPLES, SEED)))


def share_of(totals: Counts) -> Scores:
    """Return the first count over the second, of summed counts (..., 2): a loss a token, or the share that is right."""
    return totals[..., 0] / np.maximum(1, totals[..., 1])
