"""What is compared: how models of one task are measured, and how that is told. The rest knows only this.

    language.py        language models, by bits per byte
    translation.py     translators, by BLEU
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from regard.compare.plan import Entry, Plan
from regard.metrics.resampling import Counts, Scores
from regard.tasks import CARDS

Record = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    title: str                               # of a report: "Language models"
    metric: str                              # by which rows stand in order: a key of records and of rows
    higher: bool                             # is better
    headings: Sequence[tuple[str, ...]]      # of the table, each in one line or two
    # (trained, corpus): the metric, loss and perplexity, and what goes with them; `units`: what each sentence or
    # document came to, as {"of": what they are, "counts": (U, C)}
    held_out: Callable[[Any, Any], Record]
    score: Callable[[Counts], Scores]        # the metric of summed counts of units (..., C)
    # (trained, corpus, full): what each seed may change; and, for `full`, `cost` and whatever else none does
    measured: Callable[[Any, Any, bool], Record]
    # (entry, its records, the loss of the best baseline): what only rows of this subject have
    row: Callable[[Entry, Sequence[Record], float | None], Row]
    cells: Callable[[Row, Plan], list[str]]                          # one a heading
    notes: Callable[[Sequence[Row], Plan], list[str]]                # what a reader must know, beside what always holds
    outcome: Callable[[Record], str]                                 # of a trial, in a few words
    lead: Callable[[Plan, Sequence[Row]], str]                       # the first sentences of the report, as HTML
    sections: Callable[[Plan, Sequence[Row], Sequence[Record]], Iterator[tuple[str, Iterator[str]]]]
    trial: Mapping[str, Callable[[Record], str]]                     # columns of the table of all trials
    how: Mapping[str, str]                                           # how each column was measured
    data: str = "text"                                               # what is held out: "text" or "pairs"


def subject_of(task: str) -> Subject:
    """Imported when asked for: what one task needs, another need not load."""
    return import_module(f"regard.compare.{CARDS[task].compared}").SUBJECT      # type: ignore[no-any-return]
