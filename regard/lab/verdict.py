"""Verdicts: holds, fails or unclear, by a rule that was written down before the run.

The interval is a bootstrap over seeds: means of as many seeds drawn with replacement, all draws for up to six seeds,
else 10,000 of them; what 95% of the means lie between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from regard.lab.experiment import Experiment, Rule, Seed

HOLDS, FAILS, UNCLEAR = "holds", "fails", "unclear"
FEWEST = 3                                 # seeds, for a rule that has chance in it
ALL_DRAWS = 6


@dataclass(frozen=True)
class Judged:
    """What one rule says of the numbers."""

    says: str
    values: tuple[float, ...]              # one a seed
    mean: float
    low: float
    high: float
    bound: float
    side: str                              # above · below
    verdict: str
    exact: bool = False                    # low and high are the least and the largest, not an interval
    unit: str = ""


def judge(experiment: Experiment, seeds: Sequence[Seed]) -> tuple[str, list[Judged]]:
    """The verdict and what each rule says: it holds if all do, fails if one does, and is unclear else."""
    judged = [judge_rule(rule, seeds) for rule in experiment.rules]
    said = {each.verdict for each in judged}
    return (FAILS if FAILS in said else HOLDS if said == {HOLDS} else UNCLEAR), judged


def judge_rule(rule: Rule, seeds: Sequence[Seed]) -> Judged:
    values = [float(rule.value(seed)) for seed in seeds]
    low, high = (min(values), max(values)) if rule.exact else interval(values)
    mean = float(np.mean(values))
    sign = 1 if rule.above is not None else -1
    good, bad = sorted((sign * (low - rule.bound), sign * (high - rule.bound)))
    if not np.isfinite(values).all() or not (rule.exact or len(values) >= FEWEST):
        verdict = UNCLEAR
    else:
        verdict = HOLDS if good > 0 else FAILS if bad <= 0 else UNCLEAR
    side = "above" if sign > 0 else "below"
    return Judged(rule.says, tuple(values), mean, low, high, rule.bound, side, verdict, rule.exact, rule.unit)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """What 95% of the bootstrap means lie between; infinite or missing values give what they must."""
    drawn = np.asarray(values, np.float64)
    if not np.isfinite(drawn).all():
        return float("-inf"), float("inf")
    if len(drawn) <= ALL_DRAWS:
        means = np.array([drawn[list(pick)].mean() for pick in product(range(len(drawn)), repeat=len(drawn))])
    else:
        means = drawn[np.random.default_rng(0).integers(len(drawn), size=(10_000, len(drawn)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def told(rule: Mapping[str, Any]) -> str:
    """What one rule says, in a line: the number, what it lies between, the bound, and the verdict."""
    unit = rule.get("unit", "")
    kind = "least and largest of the seeds" if rule.get("exact") else "95% over seeds"
    return (f"{rule['says']}: {rule['mean']:.3g}{unit} ({kind}: {rule['low']:.3g} to {rule['high']:.3g}), to be "
            f"{rule['side']} {rule['bound']:g}{unit}: {rule['verdict']}")


def as_dicts(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    return [asdict(each) for each in judged]
