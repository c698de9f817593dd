"""An experiment: a claim, arms that are run for each seed, and rules that judge their numbers.

    EXPERIMENT = Experiment(
        name="bottleneck", number=1, title="...", claim="...", source="...", equation="...", refuted="...",
        flips=(Flip("attention", "gives the model without attention attention", arms=("rnn",)),),
        arms=(Arm("rnn", run_rnn), Arm("rnn-attention", run_attention)),
        rules=(Rule("...", lambda seed: seed["rnn-attention"]["right"] - seed["rnn"]["right"], above=0.2),
               Rule("...", lambda seed: seed["rnn"]["short"], above=0.9, condition="else it was not trained")),
        fixed=Fixed("2026-11-17", "0123456789ab"), charts=charts)

An arm gets a Setting and gives plain numbers, lists of numbers or strings: they are kept as JSON, and everything else
(verdict, table, charts) is worked out from what was kept, so that a verdict can always be worked out again.

A rule either carries the claim or is a condition. A rule that carries it names its cause: a flip that takes the cause
away and after which the rule's verdict must be another. A condition says that the experiment could test the claim at
all: where it does not hold, the claim is unclear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.report.charts import Chart, Line
from regard.report.tables import Table

__all__ = [
    "Arm", "Chart", "Experiment", "Fixed", "Flip", "Line", "Rule", "Seed", "Setting", "Table", "Values", "column"]

Values = dict[str, Any]                    # what an arm gives: numbers, lists of them, strings
Seed = Mapping[str, Values]                # of one seed: the values of each arm


@dataclass(frozen=True)
class Setting:
    """The setting in which an arm runs. `flipped`: the name of the flip, where a cause is taken away."""

    seed: int = 0
    quick: bool = False
    device: str = "cpu"
    flipped: str = ""

    def pick(self, full: Any, quick: Any) -> Any:
        """The size of something in a full run and in a quick one."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Arm:
    name: str
    run: Callable[[Setting], Values]
    once: bool = False                     # no chance is in it: run for the first seed only, and counted for all


@dataclass(frozen=True)
class Flip:
    """A cause taken away. Rules that name it must then come out otherwise."""

    name: str
    does: str                              # "takes the mask away"
    arms: tuple[str, ...] = ()             # the arms that it changes; the others are those of the run as it is. (): all


@dataclass(frozen=True)
class Rule:
    """A number for each seed, and the side of a bound on which it has to be for the claim to hold.

    It holds when the whole interval over the seeds is on that side, fails when the whole interval is on the other, and
    is unclear else. An `exact` rule is about a theorem: every seed must be on that side, one seed is enough, and one
    seed that is not breaks it.
    """

    says: str                              # "right at least 0.2 more often than ..."
    value: Callable[[Seed], float]
    above: float | None = None
    below: float | None = None
    exact: bool = False
    unit: str = ""
    cause: str = ""                        # the flip that must change it; of an experiment with one flip, that one
    condition: str = ""                    # in the place of a cause: what could not be judged if it did not hold

    def __post_init__(self) -> None:
        assert (self.above is None) != (self.below is None), f"rule {self.says!r}: give one bound, above or below"
        assert not (self.cause and self.condition), f"rule {self.says!r}: give a cause or a condition, not both"

    @property
    def side(self) -> str:
        return "below" if self.above is None else "above"

    @property
    def bound(self) -> float:
        bound = self.below if self.above is None else self.above
        assert bound is not None
        return bound


@dataclass(frozen=True)
class Fixed:
    """The day of the rules' last change, and their hash (`regard.lab.hashes`): no number came before its rule.

    `after` says what was changed after a first look at numbers, and why; empty where nothing was.
    """

    on: str                                # 2026-11-17
    hash: str
    after: str = ""


@dataclass(frozen=True)
class Experiment:
    name: str
    number: int
    title: str
    claim: str                             # one sentence
    source: str                            # which lecture says it
    equation: str
    refuted: str                           # what would refute it
    flips: Sequence[Flip]                  # each takes one cause away
    arms: Sequence[Arm]
    rules: Sequence[Rule]
    charts: Callable[[Sequence[Seed]], Sequence[Chart]]
    table: Callable[[Sequence[Seed]], Table] | None = None     # None: read off the charts
    fixed: Fixed | None = None             # since when its rules stand; None: nobody says
    timing: bool = False                   # its numbers are times: it is run alone on the machine
    notes: str = ""                        # what a careful reader should know: sizes, what was left out
    about: str = field(default="", compare=False)              # the doc string of its file
    files: tuple[str, ...] = field(default=(), compare=False)  # of the code that measures; see `find`

    def __post_init__(self) -> None:
        flips, arms = [flip.name for flip in self.flips], {arm.name for arm in self.arms}
        assert flips and all(flips) and len(set(flips)) == len(flips), f"{self.name}: name at least one flip, each once"
        for flip in self.flips:
            assert arms.issuperset(flip.arms), f"{self.name}: flip {flip.name} names an arm that there is not"
            assert any(self.cause_of(rule) == flip.name for rule in self.rules), \
                f"{self.name}: no rule has the cause {flip.name}: leave that flip out"
        for rule in self.rules:
            assert rule.condition or self.cause_of(rule) in flips, f"{self.name}: {rule.says!r}: name its cause"

    def cause_of(self, rule: Rule) -> str:
        """The name of the flip that must change a rule; none for a condition."""
        return "" if rule.condition else rule.cause or (self.flips[0].name if len(self.flips) == 1 else "")

    def flip_named(self, name: str) -> Flip:
        return next(flip for flip in self.flips if flip.name == name)

    def changes(self, flip: str, arm: Arm) -> bool:
        """True where a flip changes what an arm measures; if not, the arm is not measured again."""
        changed = self.flip_named(flip).arms
        return not changed or arm.name in changed

    @property
    def flip_text(self) -> str:
        if len(self.flips) == 1:
            return self.flips[0].does
        return "; ".join(f"{flip.name}: {flip.does}" for flip in self.flips)


def column(seeds: Sequence[Seed], arm: str, name: str) -> list[Any]:
    """One value of an arm, for each seed."""
    return [seed[arm][name] for seed in seeds]
