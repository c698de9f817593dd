"""What an experiment is: a claim, arms that are run for each seed, and rules that judge their numbers.

    EXPERIMENT = Experiment(
        name="bottleneck", number=1, title="...", claim="...", source="...", equation="...", refuted="...",
        flip="gives the model without attention attention",
        arms=(Arm("rnn", run_rnn), Arm("rnn-attention", run_attention)),
        rules=(Rule("...", lambda seed: seed["rnn-attention"]["right"] - seed["rnn"]["right"], above=0.2),),
        charts=charts)

An arm gets a Setting and gives plain numbers, lists of numbers or strings: they are kept as JSON, and everything else
(verdict, table, charts) is worked out from what was kept, so that a verdict can always be worked out again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Values = dict[str, Any]                    # what an arm gives: numbers, lists of them, strings
Seed = Mapping[str, Values]                # of one seed: the values of each arm


@dataclass(frozen=True)
class Setting:
    """How an arm is run. `flipped`: with the cause taken away, after which the verdict must change."""

    seed: int = 0
    quick: bool = False
    device: str = "cpu"
    flipped: bool = False

    def pick(self, full: Any, quick: Any) -> Any:
        """The size of something in a full run and in a quick one."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Arm:
    name: str
    run: Callable[[Setting], Values]
    once: bool = False                     # no chance is in it: run for the first seed only, and counted for all


@dataclass(frozen=True)
class Rule:
    """A number for each seed, and the side of a bound on which it has to be for the claim to hold.

    It holds when the whole interval over the seeds is on that side, fails when the whole interval is on the other, and
    is unclear else. An `exact` rule is about a theorem: every seed must be on that side, and one seed is enough.
    """

    says: str                              # "right at least 0.2 more often than ..."
    value: Callable[[Seed], float]
    above: float | None = None
    below: float | None = None
    exact: bool = False
    unit: str = ""

    def __post_init__(self) -> None:
        assert (self.above is None) != (self.below is None), f"rule {self.says!r}: give one bound, above or below"

    @property
    def bound(self) -> float:
        bound = self.above if self.above is not None else self.below
        assert bound is not None
        return bound


@dataclass(frozen=True)
class Line:
    """One series of a chart: for each seed its y at the common x. `x` are numbers, or names for bars."""

    name: str
    x: Sequence[Any]
    y: Sequence[Sequence[float]]           # (seeds, x)
    style: int | None = None               # the same for what belongs together; None: in turn


@dataclass(frozen=True)
class Chart:
    title: str
    x: str                                 # what is along the axis, with its unit
    y: str
    lines: Sequence[Line]
    kind: str = "lines"                    # lines · bars
    log_x: bool = False
    log_y: bool = False
    y_from: float | None = None            # where the axis begins and ends, if that matters
    y_to: float | None = None
    levels: Sequence[tuple[str, float]] = ()           # what to compare with, drawn across: chance, a theorem


@dataclass(frozen=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Experiment:
    name: str
    number: int
    title: str
    claim: str                             # one sentence
    source: str                            # which lecture says it
    equation: str
    refuted: str                           # what would refute it
    flip: str                              # what `flip` does to take the cause away
    arms: Sequence[Arm]
    rules: Sequence[Rule]
    charts: Callable[[Sequence[Seed]], Sequence[Chart]]
    table: Callable[[Sequence[Seed]], Table] | None = None     # None: read off the charts
    timing: bool = False                   # its numbers are times: it is run alone on the machine
    notes: str = ""                        # what a careful reader should know: sizes, what was left out
    about: str = field(default="", compare=False)              # the doc string of its file
    files: tuple[str, ...] = field(default=(), compare=False)  # of the code that measures; see `find`

    @property
    def rule_text(self) -> str:
        sides = ["above" if rule.above is not None else "below" for rule in self.rules]
        return "; and ".join(f"{rule.says} ({side} {rule.bound:g}{rule.unit})"
                             for rule, side in zip(self.rules, sides, strict=True))


def column(seeds: Sequence[Seed], arm: str, name: str) -> list[Any]:
    """One value of an arm, for each seed."""
    return [seed[arm][name] for seed in seeds]
