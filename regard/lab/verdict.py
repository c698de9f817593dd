"""Verdicts: holds, fails or unclear, by a rule that was written down before the run.

The interval is that of the median over seeds (`regard.metrics.intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from regard.lab.experiment import Experiment, Rule, Seed
from regard.metrics.intervals import SEEDS, over_seeds

HOLDS, FAILS, UNCLEAR = "holds", "fails", "unclear"
FEWEST = 3                                 # seeds, for a rule that has chance in it


@dataclass(frozen=True)
class Judged:
    """The verdict of one rule on the numbers."""

    says: str
    values: tuple[float, ...]              # one a seed
    median: float
    low: float
    high: float
    bound: float
    side: str                              # above · below
    verdict: str
    exact: bool = False                    # low and high are the least and the largest, not an interval
    unit: str = ""
    cause: str = ""                        # the flip that must change it
    condition: str = ""                    # or what could not be judged without it


def judge(experiment: Experiment, seeds: Sequence[Seed]) -> tuple[str, list[Judged]]:
    """The verdict and what each rule says.

    The claim is unclear where a condition does not hold. Else it holds if all rules that carry it do, fails if one of
    them does, and is unclear in between.
    """
    judged = [judge_rule(rule, seeds, experiment.cause_of(rule)) for rule in experiment.rules]
    if any(each.condition and each.verdict != HOLDS for each in judged):
        return UNCLEAR, judged
    found = {each.verdict for each in judged}
    return (FAILS if FAILS in found else HOLDS if found == {HOLDS} else UNCLEAR), judged


def judge_rule(rule: Rule, seeds: Sequence[Seed], cause: str = "") -> Judged:
    values = tuple(float(rule.value(seed)) for seed in seeds)
    spread = over_seeds(values)
    low, high = (min(values), max(values)) if rule.exact else (spread.low, spread.high)
    return Judged(rule.says, values, median(values), low, high, rule.bound, rule.side,
                  _verdict(rule, values, low, high), rule.exact, rule.unit, cause, rule.condition)


def _verdict(rule: Rule, values: Sequence[float], low: float, high: float) -> str:
    """On the bound is not beyond it: there a rule fails."""
    sign = 1 if rule.side == "above" else -1
    if rule.exact and any(sign * (value - rule.bound) <= 0 for value in values):
        return FAILS                                         # one seed breaks a theorem, whatever the others are
    if not all(map(math.isfinite, values)) or not (rule.exact or len(values) >= FEWEST):
        return UNCLEAR
    worst, best = sorted((sign * (low - rule.bound), sign * (high - rule.bound)))
    return HOLDS if worst > 0 else FAILS if best <= 0 else UNCLEAR


def tell_bound(rule: Rule) -> str:
    """A rule in a line, before anything is measured."""
    kind = f"; a condition: {rule.condition}" if rule.condition else f"; cause: {rule.cause}" if rule.cause else ""
    return f"{rule.says} ({rule.side} {rule.bound:g}{rule.unit}{', every seed' * rule.exact}{kind})"


def tell_rule(rule: Mapping[str, Any]) -> str:
    """A judged rule in a line: the number, its interval, the bound, and the verdict."""
    unit = rule.get("unit", "")
    kind = "least and largest of the seeds" if rule.get("exact") else SEEDS
    condition = f" (a condition: {rule['condition']})" if rule.get("condition") else ""
    return (f"{rule['says']}: {rule['median']:.3g}{unit} ({kind}: {rule['low']:.3g} to {rule['high']:.3g}), to be "
            f"{rule['side']} {rule['bound']:g}{unit}: {rule['verdict']}{condition}")
