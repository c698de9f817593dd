"""Scores of resampled sentences: how far BLEU and chrF would move on other sentences of the same kind.

Both are functions of counts added up over sentences, so a resample costs one row of a matrix product, and the
scores of all resamples are computed at once. `bleu_of` and `chrf_of` are held equal to sacreBLEU's own by tests, and
the draws are those that sacreBLEU makes from the same seed.
S sentences · R resamples · C counts of a sentence: 10 for BLEU, then 18 for chrF
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64]               # (..., C), whole numbers
Scores = NDArray[np.float64]               # (...)
Score = Callable[[Counts], Sequence[Scores] | Scores]           # of summed counts (..., C)
Interval = tuple[float, float]

BLEU_COUNTS = 10
DRAWN = 1 << 22                            # numbers drawn at a time, so that memory does not grow with the text


def bleu_of(totals: Counts) -> Scores:
    """BLEU of each row of summed counts (..., 10): lengths of hypothesis and reference, matches and n-grams of 1 to 4
    words. An order without matches counts as 1/2, 1/4, ... of one."""
    length, wanted = totals[..., 0], totals[..., 1]
    matches, ngrams = totals[..., 2:6], totals[..., 6:10]
    none = matches == 0
    smoothed = np.where(none, 0.5 ** np.cumsum(none, -1), matches)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.exp(np.log(smoothed / ngrams).mean(-1))
        brevity = np.exp(np.minimum(0, 1 - wanted / length))
        scores = 100 * brevity * precision
    return np.where(none.all(-1) | (ngrams == 0).any(-1), 0.0, scores)


def chrf_of(totals: Counts) -> Scores:
    """chrF of each row of summed counts (..., 18): of hypothesis, reference and both, the n-grams of 1 to 6 characters.
    F2 of the mean precision and the mean recall, over the orders there are."""
    counts = totals.reshape(*totals.shape[:-1], 6, 3)
    real = (counts[..., 0] > 0) & (counts[..., 1] > 0)
    orders = np.maximum(1, real.sum(-1))
    shares = np.where(real[..., None], counts[..., 2:] / np.maximum(1, counts[..., :2]), 0)
    precision, recall = np.moveaxis(shares.sum(-2) / orders[..., None], -1, 0)
    weighed = 4 * precision + recall
    return 100 * 5 * precision * recall / np.where(weighed > 0, weighed, 1)


def scores_of(totals: Counts) -> tuple[Scores, Scores]:
    return bleu_of(totals[..., :BLEU_COUNTS]), chrf_of(totals[..., BLEU_COUNTS:])


def resample(counts: Counts, samples: int, seed: int) -> Counts:
    """(R, C): the summed counts of S sentences drawn with replacement, R times."""
    rng = np.random.default_rng(seed)
    sentences = len(counts)
    totals = []
    for rows in _chunks(samples, sentences):
        picked = rng.choice(sentences, size=(rows, sentences)) + sentences * np.arange(rows)[:, None]
        times = np.bincount(picked.ravel(), minlength=rows * sentences).reshape(rows, sentences)
        totals.append(times.astype(np.float64) @ counts)
    return np.concatenate(totals)


def estimate_chances(
    a: Counts, b: Counts, score: Score, seen: Sequence[float], trials: int, seed: int
) -> list[float]:
    """The p-value of each score: how often an exchange of systems by coin gives a difference as large as was seen."""
    rng = np.random.default_rng(seed)
    total_a, total_b = a.sum(0), b.sum(0)
    as_large = [1] * len(seen)                             # what was seen is one way for the coins to fall
    for rows in _chunks(trials, len(a)):
        coins = rng.integers(2, size=(rows, len(a)), dtype=bool)
        moved = coins.astype(np.float64) @ (a - b)         # (R, C)
        for i, (x, y) in enumerate(zip(score(total_b + moved), score(total_a - moved), strict=True)):
            as_large[i] += int((np.abs(x - y) >= abs(seen[i]) - 1e-9).sum())
    return [count / (trials + 1) for count in as_large]


def _chunks(rows: int, width: int) -> Iterator[int]:
    """Rows drawn at a time, in multiples of 32: then the random bits are used up as if all were drawn at once."""
    most = max(32, DRAWN // max(1, width) // 32 * 32)
    for start in range(0, rows, most):
        yield min(most, rows - start)
