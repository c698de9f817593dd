"""Differences between families, and which are beyond the noise: paired over seeds and sentences, and corrected.

    over seeds        a - b of each seed, the same seed of both; p by a paired t
    over sentences    a - b on the same sentences; p by exchanging them at random, all seeds of a sentence together
    p                 the larger of the two: a difference has to stand against both kinds of chance
    p corrected       by Holm (1979) over all pairs of families. Not just those with the first: the same numbers decide
                      who is first, so any pair might have been asked about

A unit is what is exchanged and drawn: a sentence, a document, or a stretch of one long text. Its counts add up, and the
score is a function of their sums, as BLEU is.
S seeds · U units · C counts of a unit · R draws
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from regard.metrics.intervals import OverSeeds, over_seeds, over_sentences
from regard.metrics.resampling import DRAWN, Counts, Scores, resample

LEVEL = 0.05
TRIALS, SAMPLES, SEED = 10_000, 1_000, 12345
ROUNDING = 1e-9                            # two orders of adding up the same numbers differ by less

Seed = int | None                          # None: of a family that no seed changes, like an n-gram
Score = Callable[[Counts], Scores]         # from summed counts (..., C) to the number of the table (...)


@dataclass(frozen=True)
class Results:
    """The results of one family: a value a seed and, where they were stored, the counts (U, C) of its units."""

    family: str
    values: Mapping[Seed, float]
    units: Mapping[Seed, Counts] = field(default_factory=dict)


@dataclass(frozen=True)
class OverSentences:
    """The 95% interval of a - b over units drawn again, and how easily an exchange by coin gives as much."""

    low: float
    high: float
    sentences: int
    p: float


@dataclass(frozen=True)
class FamilyDifference:
    """a - b: the median over seeds. A part that cannot be judged is None."""

    a: str
    b: str
    difference: float
    over_seeds: OverSeeds | None = None
    p_seeds: float | None = None
    over_sentences: OverSentences | None = None
    p_corrected: float | None = None
    comparisons: int = 1                   # for so many, this one included

    @property
    def p(self) -> float | None:
        said = (self.p_seeds, self.over_sentences.p if self.over_sentences else None)
        return max((p for p in said if p is not None), default=None)

    @property
    def beyond(self) -> bool:
        """True where it is beyond the noise."""
        return self.p_corrected is not None and self.p_corrected < LEVEL

    def as_dict(self) -> dict[str, Any]:
        seeds, sentences = self.over_seeds, self.over_sentences
        return {
            "a": self.a, "b": self.b, "difference": self.difference,
            "over_seeds": seeds and {"low": seeds.low, "high": seeds.high, "seeds": seeds.seeds, "p": self.p_seeds},
            "over_sentences": sentences and vars(sentences), "p": self.p, "p_corrected": self.p_corrected,
            "comparisons": self.comparisons, "beyond_the_noise": self.beyond}


def all_differences(found: Sequence[Results], score: Score, trials: int = TRIALS) -> list[FamilyDifference]:
    """Every pair of families, in the order given, judged and corrected."""
    draws = Draws.make(found, trials)
    judged = [one_difference(a, b, score, draws) for a, b in combinations(found, 2)]
    corrected, made = holm([each.p for each in judged]), sum(each.p is not None for each in judged)
    return [replace(each, p_corrected=p, comparisons=made) for each, p in zip(judged, corrected, strict=True)]


def one_difference(a: Results, b: Results, score: Score, draws: Draws) -> FamilyDifference:
    """One pair, judged by seeds and by sentences where all values are finite and both have some seed."""
    seeds = common_seeds(a.values, b.values)
    apart = [of_seed(a.values, seed) - of_seed(b.values, seed) for seed in seeds]
    if not apart or not all(map(math.isfinite, apart)):
        return FamilyDifference(a.family, b.family, math.nan)
    both = [seed for seed in seeds if all(has_seed(each.units, seed) for each in (a, b))]
    return FamilyDifference(
        a.family, b.family, statistics.median(apart), over_seeds(apart) if len(apart) > 1 else None,
        paired_t(apart) if len(apart) > 1 else None, draws.judge(a, b, both, score) if both else None)


def common_seeds(a: Mapping[Seed, Any], b: Mapping[Seed, Any]) -> list[Seed]:
    """The seeds of both; a family that no seed changes goes with any."""
    own = [seed for seed in (b if None in a else a) if None in b or None in a or seed in b]
    return list(dict.fromkeys(own))


def has_seed(kept: Mapping[Seed, Any], seed: Seed) -> bool:
    return None in kept or seed in kept


def of_seed(kept: Mapping[Seed, Any], seed: Seed) -> Any:
    return kept[None] if None in kept else kept[seed]


# ---------------------------------------------------------------------------------------------- over seeds


def paired_t(apart: Sequence[float]) -> float:
    """The two-sided p of Student's t that the mean of these differences is zero."""
    mean, spread = statistics.fmean(apart), statistics.stdev(apart)
    if spread == 0:
        return 1.0 if mean == 0 else 0.0
    return t_chance(abs(mean) / spread * math.sqrt(len(apart)), len(apart) - 1)


def t_chance(t: float, freedom: int) -> float:
    """P(|T| >= t) for whole degrees of freedom, by the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, odd = math.cos(angle), freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(odd, freedom - 1, 2):                     # powers of the cosine up to freedom - 2
        total += term
        term *= cosine**2 * (k + 1) / (k + 2)
    inside = math.sin(angle) * total
    return 1 - (2 / math.pi * (angle + inside) if odd else inside)


# ------------------------------------------------------------------------------------------ over sentences


@dataclass(frozen=True)
class Draws:
    """Units exchanged by coin, and units drawn with replacement: the same draws for all pairs, made once."""

    totals: Mapping[tuple[str, Seed], Counts]                # (C,)
    heads: Mapping[tuple[str, Seed], Counts]                 # (R, C): of the units whose coin shows heads
    again: Mapping[tuple[str, Seed], Counts]                 # (R, C): of units drawn with replacement
    units: int

    @classmethod
    def make(cls, found: Sequence[Results], trials: int) -> Draws:
        """Draw for all families. One whose units are not those of the first is left out."""
        units_of = {(each.family, seed): units for each in found for seed, units in each.units.items()}
        shape = next((units.shape for units in units_of.values()), (0, 0))
        units_of = {key: units for key, units in units_of.items() if units.shape == shape}
        if not units_of:
            return cls({}, {}, {}, 0)
        side_by_side = np.hstack(list(units_of.values()))        # (U, C of each family and seed)

        def apart(rows: Counts) -> dict[tuple[str, Seed], Counts]:
            return dict(zip(units_of, np.split(rows, len(units_of), -1), strict=True))

        heads = np.concatenate([coins @ side_by_side for coins in throw_coins(trials, len(side_by_side))])
        return cls({key: units.sum(0) for key, units in units_of.items()}, apart(heads),
                   apart(resample(side_by_side, SAMPLES, SEED)), len(side_by_side))

    def judge(self, a: Results, b: Results, seeds: Sequence[Seed], score: Score) -> OverSentences | None:
        keys = [[(each.family, None if None in each.units else seed) for seed in seeds] for each in (a, b)]
        if not all(key in self.totals for own in keys for key in own):
            return None
        total, heads, again = ([np.stack([kept[key] for key in own]) for own in keys]
                               for kept in (self.totals, self.heads, self.again))        # of a and b: (S, ..., C)
        seen = float(mean_score(total[0], score) - mean_score(total[1], score))
        moved = heads[1] - heads[0]
        exchanged = mean_score(total[0][:, None] + moved, score) - mean_score(total[1][:, None] - moved, score)
        as_large = 1 + int((np.abs(exchanged) >= abs(seen) - ROUNDING).sum())            # as seen is one way to fall
        low, high = over_sentences(mean_score(again[0], score) - mean_score(again[1], score))
        return OverSentences(low, high, self.units, as_large / (len(exchanged) + 1))


def mean_score(totals: Counts, score: Score) -> Scores:
    """The mean over seeds of the scores of summed counts (S, ..., C)."""
    return np.asarray(score(totals)).mean(0)


def throw_coins(trials: int, units: int) -> Iterator[Counts]:
    """Coins (R, U), so many at a time that memory does not grow with the text."""
    rng, at_once = np.random.default_rng(SEED), max(1, DRAWN // max(1, units))
    for start in range(0, trials, at_once):
        yield rng.integers(2, size=(min(at_once, trials - start), units)).astype(np.float64)


# ----------------------------------------------------------------------------------------------- corrected


def holm(chances: Sequence[float | None]) -> list[float | None]:
    """Holm's correction: the least p counts as often as there are comparisons, the next once less, and none falls below
    the one before it. What was not judged stays so, and is not counted."""
    there = sorted((p, at) for at, p in enumerate(chances) if p is not None)
    found: list[float | None] = [None] * len(chances)
    least = 0.0
    for place, (p, at) in enumerate(there):
        least = max(least, min(1.0, p * (len(there) - place)))
        found[at] = least
    return found
