"""A subject: how the models of one task are measured, and how the table and the report show it. The rest knows only
this. A new subject is one file, and its name in the task's card (`compared`).

    language_models.py     by bits per byte
    translators.py         by BLEU
    classifiers.py         by accuracy of texts
    taggers.py             by accuracy of words
"""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from regard.compare.columns import OF_TRAINING, Column, name_family, show_interval
from regard.compare.family_curves import Levels, plot_training, plot_validations
from regard.compare.plan import HALVE, ComparisonPlan, Entry, Record, Row
from regard.metrics.intervals import SEEDS
from regard.metrics.resampling import Counts, Scores
from regard.report.numbers import show_share
from regard.report.page import Markup, grid, visible
from regard.report.tables import Cell, html_table
from regard.tasks import CARDS

Section = tuple[str, Iterator[str]]          # a heading, and parts as HTML


class Subject(ABC):
    title: str                               # of a report: "Language models"
    metric: str                              # by which rows stand in order: a key of records and of rows
    metric_name: str                         # in a sentence: "bits per byte"
    higher: bool                             # is better
    digits: int                              # of the metric, behind the point
    data = "text"                            # what is held out: "text" or "pairs"
    loss_name = "nats a token"               # of the learning curves
    measures: ClassVar[Mapping[str, Callable[[Record], str]]]    # columns of the table of all trials, before training's
    means: ClassVar[Sequence[str]] = ()      # values of records, of which a row has the mean over the seeds
    facts: ClassVar[Sequence[str]] = ()      # values of records that no seed changes

    # ------------------------------------------------------------------------------------------ measuring

    @abstractmethod
    def held_out(self, trained: Any, corpus: Any) -> Record:
        """The metric, `loss`, `perplexity`, and all that is measured on held-out data. `units` are the counts of each
        sentence or document, as {"of": "sentences", "counts": (U, C)}; their sums give the metric."""

    def score(self, totals: Counts) -> Scores:
        """The metric of summed counts of units (..., C): the first for each of the second, unless it is another."""
        return totals[..., 0] / np.maximum(1, totals[..., 1])

    def measure(self, trained: Any, corpus: Any, full: bool) -> Record:
        """Measurements beside the quality. With `full` also `cost`, and whatever no seed changes."""
        return {}

    def row(self, entry: Entry, done: Sequence[Record], level: float | None) -> Row:
        """Values of a family's row that only this subject has; `level` is the loss of the best baseline."""
        return {**{name: mean(record[name] for record in done) for name in self.means},
                **{name: done[0][name] for name in self.facts}}

    # -------------------------------------------------------------------------------------------- showing

    @abstractmethod
    def columns(self, plan: ComparisonPlan) -> Sequence[Column]:
        """The columns of the results table. The first is the family, the second the metric."""

    @abstractmethod
    def notes(self, rows: Sequence[Row], plan: ComparisonPlan) -> list[str]:
        """Notes below the table, beside those that always hold."""

    @abstractmethod
    def praise(self, plan: ComparisonPlan) -> str:
        """The deed of the first row, as the report begins: "predicts the held-out text best"."""

    def show_metric(self, row: Row) -> str:
        """The median over seeds, its interval, and = within the noise of the first."""
        return f"{row[self.metric]:.{self.digits}f}{show_interval(row, self.digits)}{' =' if row['tied'] else ''}"

    def show_record(self, record: Record) -> str:
        """A trial in a few words."""
        return f"{record[self.metric]:.{self.digits}f} {self.metric_name}"

    def trial_columns(self) -> Mapping[str, Callable[[Record], str]]:
        return {**self.measures, **OF_TRAINING}

    # ------------------------------------------------------------------------------------------ the report

    def lead(self, plan: ComparisonPlan, rows: Sequence[Row]) -> str:
        """The first sentence of the report, as HTML."""
        there = self.measured_rows(rows)
        tied = [row["family"] for row in there if row["tied"]]
        shown = self.show_metric(there[0]).replace(")", f", {SEEDS})")
        return (f"{escape(name_family(there[0]))} {escape(self.praise(plan))}: <strong>{escape(shown)}</strong> "
                + self.metric_name + (f", within the noise of it {escape(', '.join(tied))}." if tied else "."))

    def sections(self, plan: ComparisonPlan, rows: Sequence[Row], done: Sequence[Record]) -> Iterator[Section]:
        """Sections of the report, between the table and the list of all trials."""
        yield "Learning curves", self.learning(plan, rows, done)

    def learning(self, plan: ComparisonPlan, rows: Sequence[Row], done: Sequence[Record]) -> Iterator[str]:
        """Learning curves: the metric of validation, where training measures one, and losses."""
        scale, levels, judged = self.loss_scale(plan), self.baselines(plan, rows), CARDS[plan.task].judged
        figures: list[str] = []
        if judged is not None:
            key, name = judged
            figures += plot_validations(plan, done, key.removeprefix("valid_"), name, of=name)
        figures += plot_validations(plan, done, "valid", f"held-out {self.loss_name}", of="Loss" if judged else "",
                                    scale=scale, levels=levels)
        yield grid([*figures, *plot_training(plan, done, f"{self.loss_name} of what is read", scale, levels)])

    def loss_scale(self, plan: ComparisonPlan) -> float:
        """From nats a token to `loss_name`."""
        return 1.0

    def baselines(self, plan: ComparisonPlan, rows: Sequence[Row]) -> Levels:
        """Named levels to cross in plots of the loss."""
        return ()

    # -------------------------------------------------------------------------------------- what is held out

    def measured_rows(self, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if row[self.metric] is not None]

    def choosing_part(self, plan: ComparisonPlan) -> str:
        """The part of the data by which weights and orders are chosen, where another one is measured."""
        half = plan.text["measured_on"] == "half"
        return f"one half of the held-out {self.data}" if half else f"the validation {self.data}"

    def tell_weights(self, plan: ComparisonPlan) -> str:
        """The end of a note: by which part the weights were chosen, and which part is measured."""
        part = (f"{self.choosing_part(plan)}: these are of {measured_part(plan)}, by which nothing was chosen"
                if plan.text.get("measured_on") else f"them, which favours all alike{why_not_divided(plan)}")
        return f"the weights of each model are those of its best validation on {part}."


def mean(values: Any) -> float | None:
    """The mean of the values that are known; None where none is."""
    there = [value for value in values if value is not None]
    return statistics.fmean(there) if there else None


def show_best(
    plan: ComparisonPlan, done: Sequence[Record], metric: str, shown: str, given: Mapping[str, str], answer: str
) -> Iterator[str]:
    """A table for each example in `shown` of a record: what was given, and the answer of each family's best seed.

    `given` and `answer` are keys of an example, `given` by the name of their line. A list is a row of words.
    """
    best = {}
    for entry in plan.entries:
        own = [record for record in done if record["family"] == entry.family]
        if own:
            best[entry.family] = max(own, key=lambda record: record[metric])
    for place, example in enumerate(next(iter(best.values()))[shown] if best else ()):
        lines = {name: example[key] for name, key in given.items()} | {
            family: record[shown][place][answer] for family, record in best.items()}
        texts = {name: line if isinstance(line, str) else " ".join(line) for name, line in lines.items()}
        yield html_table((), [[Cell(name, heading=True), Cell(Markup(visible(text)), "left")]
                              for name, text in texts.items()], label=f"Sentence {place + 1}") + "<br>"


def show_f1(rows: Sequence[Row], done: Sequence[Record], of: str, title: str) -> Iterator[str]:
    """Yield a table of the F1 of each label, the mean over the seeds; `of` is the key of a record that has them."""
    labels, body = sorted({label for record in done for label in record[of]}), []
    for row in rows:
        own = [record[of] for record in done if record["family"] == row["family"]]
        if own:
            shares = [mean(each.get(label, {}).get("f1") for each in own) for label in labels]
            body.append([row["family"], *map(show_share, shares)])
    yield html_table(("F1", *labels), body, label=title)


def measured_part(plan: ComparisonPlan) -> str:
    return "the other half" if plan.text["measured_on"] == "half" else "the test part"


def why_not_divided(plan: ComparisonPlan) -> str:
    """The reason why one part both chooses and is measured, as the end of a sentence."""
    asked = plan.settings.get("data", {}).get(HALVE)
    if asked is None:
        return " (this comparison was begun before held-out data were divided)"
    return " (it is too small to be divided: name other files with --test)" if asked is True else ""


def subject_of(task: str) -> Subject:
    """The subject of a task. It is imported now: what one task needs, another need not load."""
    return import_module(f"regard.compare.{CARDS[task].compared}").SUBJECT      # type: ignore[no-any-return]
