"""The score of a classifier: accuracy and macro-F1, beside the majority class and a bag of n-grams."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from regard.config import fill
from regard.data import embedded
from regard.data.labels.labelled_texts import OF_TEXTS, Labelling, LabelSettings, read_labelled, whole_part
from regard.data.pairs.pairs import TextPair
from regard.data.reading.tally import Tally
from regard.errors import DataError
from regard.metrics.classification import measure_labels
from regard.metrics.intervals import TEXTS
from regard.tasks.classify.trained import TrainedClassifier
from regard.tasks.score import Options, Outcome, Row, Say, Scoring
from regard.tasks.trained_model import TrainedModel

BASELINES = {"majority": "majority class", "ngrams": "bag of n-grams"}


def measure(model: TrainedClassifier, files: tuple[str, ...], options: Options, say: Say) -> Outcome:
    """Return accuracy and macro-F1 of the run and of its baselines; or with --per-line the labels of each text."""
    pairs = list(islice(read_pairs(model, OF_TEXTS, files, options, say), options["first"]))
    wanted, texts = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if unknown := sorted({*wanted} - {*model.labels}):
        say(f"{sum(label in unknown for label in wanted):,} texts have a label that the model cannot give "
            f"({', '.join(unknown[:3])}{', ...' if len(unknown) > 3 else ''}): they count as wrong")
    began = time.perf_counter()
    guesses = [found[0] for found in model.classify(texts)]
    seconds = time.perf_counter() - began
    if options["per_line"]:
        return Outcome(each=(
            ({"text": text, "label": label, "given": guess.label, "probability": guess.probability},
             f"{guess.label}\t{guess.probability:.4f}\t{label}\t{text}")
            for text, label, guess in zip(texts, wanted, guesses, strict=True)))
    values = measure_labels([guess.label for guess in guesses], wanted).as_dict() | measure_baselines(
        model, texts, wanted)
    values |= {"seconds": seconds, "texts_per_second": len(texts) / max(seconds, 1e-9)}
    return Outcome(values, rows_of(values))


def measure_baselines(model: TrainedClassifier, texts: list[str], wanted: list[str]) -> dict[str, Any]:
    """Return the same measures of the majority class and of the bag of n-grams that learned from the same texts."""
    given = {"majority": [model.majority] * len(texts), "ngrams": model.classify_by_ngrams(texts)}
    found = {name: measure_labels(labels, wanted).as_dict() for name, labels in given.items()}
    return {f"{name}_{key}": value for name, values in found.items() for key, value in values.items()
            if key not in ("texts", "labels")}


def read_pairs(
    model: TrainedModel, kind: Labelling, files: tuple[str, ...], options: Options, say: Say
) -> Iterator[TextPair]:
    """Yield labels and texts: of an embedded corpus a part, `test` unless told; else every text of the files."""
    if embedded.known_labelled(files, kind.unit):
        for found in embedded.labelled(files[0], options["part"] or "test"):
            yield TextPair(*found)
        return
    if options["part"]:
        raise DataError(f"--part {options['part']} is of an embedded corpus, and {', '.join(files)} is none: leave it "
                        "out")
    data, tally = fill(LabelSettings, model.tables["data"], "data"), Tally()
    data = whole_part(replace(data, files=files, on_bad_text=options["on_bad_text"]))
    yield from read_labelled(data, kind, tally)
    if tally.dropped:
        say(tally.line())


def rows_of(values: dict[str, Any]) -> list[Row]:
    def show(name: str) -> str:
        low, high = values[f"{name}_interval"]
        return f"{values[name]:.2%} ({low:.2%} to {high:.2%})"

    worst = min(values["labels"].items(), key=lambda each: each[1]["f1"])
    rows = [("accuracy", f"{show('accuracy')} of {values['texts']:,} texts, {TEXTS}"), ("macro-F1", show("macro_f1"))]
    rows += [(title, f"{show(f'{name}_accuracy')}, macro-F1 {show(f'{name}_macro_f1')}")
             for name, title in BASELINES.items()]
    return [*rows, ("hardest label", f"{worst[0]}: F1 {worst[1]['f1']:.2%} of {worst[1]['texts']:,} texts"),
            ("speed", f"{values['texts_per_second']:,.0f} texts a second")]


SCORE = Scoring(measure, ("first", "per_line"))
