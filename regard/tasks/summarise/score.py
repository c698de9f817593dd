"""The score of a summariser: ROUGE beside that of the first sentences, loss, and a paired test."""

from __future__ import annotations

from typing import Any

from regard.metrics.intervals import TEXTS
from regard.metrics.summary_quality import KINDS, lead, paired
from regard.metrics.summary_quality import measure as measure_texts
from regard.tasks.score import OF_SOURCES, Options, Outcome, Row, Say, Scoring, warning_rows
from regard.tasks.summarise.trained import TrainedSummariser
from regard.tasks.translate.score import against_rows, interval, measure_writing, read_test, translate_by_other


def measure(model: TrainedSummariser, files: tuple[str, ...], options: Options, say: Say) -> Outcome:
    test = read_test(model, files, options, say)
    summaries, common = measure_writing(model, test, options, say)
    first = lead(test.sources)
    values = {**measure_texts(summaries, test.references).as_dict(), **common,
              "lead": measure_texts(first, test.references).as_dict(),
              "against_lead": paired(first, summaries, test.references, names=("the first sentence", "it")).as_dict()}
    if test.golds and model.attends:
        errors = model.alignment_error(test.sources, test.references, test.golds, test.words, notice=say)
        values |= {name: value for name, value in errors.as_dict().items() if name.startswith("aer")}
    if options["against"]:
        theirs, names = translate_by_other(model, test, options)
        values["against"] = paired(summaries, theirs, test.references, names=names).as_dict()
    return Outcome(values, make_rows(values))


def make_rows(values: dict[str, Any]) -> list[Row]:
    lead = values["lead"]
    return [
        *((name, f"{values[kind]:.2f}{interval(values[f'{kind}_interval'], TEXTS)}   the first sentence alone: "
                 f"{lead[kind]:.2f}{interval(lead[f'{kind}_interval'], TEXTS)}") for kind, name in KINDS.items()),
        ("so", values["against_lead"]["verdict"]),
        ("exact match", f"{values['exact_match']:.2%} of {values['sentences']:,} documents"),
        ("loss", f"{values['loss']:.4f} nats a token"),
        *warning_rows(values),
        ("signature", values["signature"]),
        ("speed", f"{values['sentences_per_second']:.1f} documents a second, beam {values['beam']}; "
                  f"{values['kernels']}"),
        *against_rows(values, KINDS, TEXTS),
    ]


SCORE = Scoring(measure, OF_SOURCES)
