"""The score of a summariser: ROUGE beside that of the first sentences, loss, and a paired test."""

from __future__ import annotations

import time
from typing import Any

from regard.decoding.fast.ways import ways
from regard.metrics.intervals import TEXTS
from regard.metrics.summary import KINDS, lead, paired
from regard.metrics.summary import measure as measure_texts
from regard.tasks.score import OF_SOURCES, Options, Outcome, Row, Say, Score, warning_rows
from regard.tasks.summarise.trained import TrainedSummariser
from regard.tasks.translate.score import against_rows, interval, read_test, translate_by_other, translate_test


def measure(model: TrainedSummariser, files: tuple[str, ...], options: Options, say: Say) -> Outcome:
    test = read_test(model, files, options, say)
    surprise = model.score_pairs(test.sources, test.references, notice=say)
    began = time.perf_counter()
    summaries = translate_test(model, test, options, say)
    seconds = time.perf_counter() - began
    first = lead(test.sources)
    values = {**measure_texts(summaries, test.references).as_dict(), **surprise.as_dict(), "beam": options["beam"],
              "seconds": seconds, "sentences_per_second": len(summaries) / seconds,
              "kernels": ways(model.model.device), "lead": measure_texts(first, test.references).as_dict(),
              "against_lead": paired(first, summaries, test.references, names=("the first sentence", "it")).as_dict()}
    if test.golds and model.attends:
        errors = model.alignment_error(test.sources, test.references, test.golds, test.words, notice=say)
        values |= {name: value for name, value in errors.as_dict().items() if name.startswith("aer")}
    if options["against"]:
        theirs, names = translate_by_other(model, test, options)
        values["against"] = paired(summaries, theirs, test.references, names=names).as_dict()
    return Outcome(values, rows_of(values))


def rows_of(values: dict[str, Any]) -> list[Row]:
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


SCORE = Score(measure, OF_SOURCES)
